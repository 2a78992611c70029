/* SPDX-License-Identifier: MIT */
/* etch rewrite: one verb. What to do is seen from the file. */
#include "command.h"
#include "elf/outfile.h"
#include "elf/undo.h"
#include "rewrite.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct options {
	const char *output, *sidecar;
	bool werror, verbose, undo, no_undo;
	int jobs; /* processes; with one file, threads */
	struct rewrite_options make;
};

static void help(void)
{
	printf("Usage: etch rewrite [OPTION...] FILE...\n"
	       "\n"
	       "An object file (after compile): finds every instruction that reads an etched\n"
	       "object (ETCHED, DEFINE_IMV) and every call through a function pointer in one\n"
	       "(DEFINE_PV_OPS), and adds the tables __imv, __pv_sites and __etch_obj; works out\n"
	       "from the code how to unwind it and adds .orc_unwind_ip and .orc_unwind. Its code\n"
	       "is not changed.\n"
	       "A program or shared library (after link): finds what the object step could not\n"
	       "see, sorts the tables and turns the loads that can be changed while threads run\n"
	       "into immediates, the calls into direct calls, nops or an instruction of the\n"
	       "function; and adds an unwind table in a segment of its own, also to a file that\n"
	       "never saw the object step. Both steps may be left out. Both check the exception\n"
	       "table __ex_table (<etch/extable.h>), which the second sorts.\n"
	       "\n"
	       "The file is replaced as a whole or not at all. Rewriting twice is rewriting once.\n"
	       "LLVM bitcode (clang -flto -c) is left alone: rewrite the linked program.\n"
	       "\n"
	       "  -o, --output OUT   write to OUT and leave FILE as it is (one FILE only)\n"
	       "  -j, --jobs N       work on N files at a time; on one FILE with N threads\n"
	       "      --only LIST    what to do, separated by commas: imv (loads), pv (calls), orc\n"
	       "                     (unwind rows), ex (exception table); the rest stays as it is\n"
	       "      --no-cfi       unwind rows from the code alone, not from .eh_frame\n"
	       "      --encoding block|orc\n"
	       "                     unwind table of a linked file; block is the default\n"
	       "      --unwind-map none|64|128\n"
	       "                     return-address map of the block table: bytes of text for each of\n"
	       "                     its bytes; 64 is the default\n"
	       "      --sidecar DIR  write the unwind table to DIR/BUILD-ID and leave FILE as it is\n"
	       "      --undo         give the files back the bytes that they had before etch rewrote\n"
	       "                     them, checked by hash\n"
	       "      --no-undo      do not put a record into the file for that\n"
	       "      --werror       exit 1 when there is a finding (see docs/findings.md)\n"
	       "  -v, --verbose      say in one line a file what was done, and every finding\n"
	       "  -h, --help\n"
	       "\n"
	       "Findings go to standard error, one line each: FILE: ID: where: what.\n"
	       "Exit status: 0 done; 1 done, with findings and --werror; 2 a file could not be\n"
	       "read, used or written: it is as it was, and the other files have been done.\n");
}

static void say_error(const char *path, const struct error *e)
{
	fprintf(stderr, "etch: %s: %s\n", path, e->text);
}

/* DIR/BUILD-ID in hexadecimal. */
static int sidecar_path(const struct elf_file *f, const char *directory, char *out, size_t size, struct error *e)
{
	const uint8_t *id;
	size_t n = elf_build_id(f, &id), i, at;

	if (elf_is_object(f))
		return error_set(e, "is an object file: a sidecar is for programs and libraries");
	if (!n)
		return error_set(e, "has no build-id, by which a sidecar is found (link with -Wl,--build-id)");
	at = (size_t)snprintf(out, size, "%s/", directory);
	for (i = 0; i < n && at + 3 < size; i++)
		at += (size_t)snprintf(out + at, size - at, "%02x", id[i]);
	return at + 3 < size ? 0 : error_set(e, "its sidecar would have too long a name");
}

/* Where the result goes, and what it is made like. */
struct place {
	const char *path, *model;
	char sidecar[4096];
};

static int file_make(struct elf_file *f, const struct options *opt, const struct name_set *others, struct scan *s,
                     struct rewrite_result *done, struct place *to, struct error *e)
{
	struct rewrite_options make = opt->make;

	to->path = opt->output ? opt->output : f->path;
	to->model = f->path;
	if (opt->sidecar) {
		if (sidecar_path(f, opt->sidecar, to->sidecar, sizeof(to->sidecar), e))
			return -1;
		to->path = to->sidecar;
		to->model = NULL;
		make.encoding = ETCH_ENCODING_BLOCK;
		return rewrite_sidecar(f, &make, done, e);
	}
	return elf_is_object(f) ? rewrite_object(f, &make, others, s, done, e) : rewrite_linked(f, &make, s, done, e);
}

/* A file as it was read, and without the record of an earlier run. */
struct source {
	uint8_t *raw;
	size_t raw_size;
	struct undo undo;        /* with a record */
	const uint8_t *original; /* what `etch rewrite --undo` is to give back */
	size_t original_size;
};

/* *bytes becomes what the steps are to see. Where the file has been changed since, what it was
 * before cannot be told any more: it begins anew with what it is. */
static int source_open(struct source *s, uint8_t **bytes, size_t *size, struct error *e)
{
	struct error stale;
	const uint8_t *begin;

	s->raw = *bytes;
	s->raw_size = *size;
	undo_detach(s->raw, s->raw_size, &s->undo, &stale);
	begin = s->undo.kept ? s->undo.kept : s->raw;
	*size = s->undo.kept ? s->undo.kept_size : s->raw_size;
	s->original = s->undo.original ? s->undo.original : begin;
	s->original_size = s->undo.original ? s->undo.original_size : *size;
	*bytes = malloc(*size + 1); /* the steps work on them in place */
	if (!*bytes)
		return error_set(e, "out of memory");
	memcpy(*bytes, begin, *size);
	return 0;
}

static void source_close(struct source *s)
{
	undo_free(&s->undo);
	free(s->raw);
}

/* The bytes to be written, with the record of what they were; done->bytes null: the file is
 * right as it is. */
static int record_add(const struct source *s, const struct options *opt, struct rewrite_result *done, struct error *e)
{
	bool same = !done->bytes;
	uint8_t *out;
	size_t size;
	int r;

	/* Nothing to do, and no record in the file, or one that is as it should be. */
	if (opt->sidecar || (same && (!s->undo.kept || (s->undo.original && !opt->no_undo))))
		return 0;
	if (same) {
		done->size = s->undo.kept_size;
		done->bytes = malloc(done->size + 1);
		if (!done->bytes)
			return error_set(e, "out of memory");
		memcpy(done->bytes, s->undo.kept, done->size);
	}
	if (opt->no_undo || (same && !s->undo.original))
		return 0;
	r = undo_attach(done->bytes, done->size, s->original, s->original_size, &out, &size, e);
	if (r <= 0)
		return r;
	free(done->bytes);
	done->bytes = out;
	done->size = size;
	if (size == s->raw_size && !memcmp(out, s->raw, size)) {
		free(out);
		done->bytes = NULL;
	}
	return 0;
}

static int write_out(const char *to, const uint8_t *bytes, size_t size, const char *model)
{
	char text[400];

	if (!outfile_write(to, bytes, size, model, text, sizeof(text)))
		return 0;
	fprintf(stderr, "etch: %s\n", text);
	return -1;
}

static int bitcode_pass(const char *path, const uint8_t *bytes, size_t size, const struct options *opt)
{
	fprintf(stderr, "etch: %s: note: LLVM bitcode, left as it is; rewrite the linked program\n", path);
	return opt->output && write_out(opt->output, bytes, size, path) ? EXIT_UNUSABLE : EXIT_CLEAN;
}

static int undo_file(const char *path, const struct options *opt)
{
	int status = EXIT_UNUSABLE, found;
	struct undo undo = {0};
	struct error e;
	uint8_t *bytes;
	size_t size;

	if (file_read(path, &bytes, &size, &e)) {
		say_error(path, &e);
		return status;
	}
	found = undo_detach(bytes, size, &undo, &e);
	if (!found)
		error_set(&e, "has no record of what it was: etch did not rewrite it, or with --no-undo");
	if (found <= 0)
		say_error(path, &e);
	else if (!write_out(opt->output ? opt->output : path, undo.original, undo.original_size, path))
		status = EXIT_CLEAN;
	if (found > 0 && !status && opt->verbose)
		printf("%s: as it was before etch rewrite, %zu bytes\n", path, undo.original_size);
	undo_free(&undo);
	free(bytes);
	return status;
}

static int rewrite_file(const char *path, const struct options *opt, const struct name_set *others)
{
	struct rewrite_result done = {0};
	struct source source = {0};
	struct elf_file f = {0};
	struct scan s = {0};
	struct place to;
	struct error e;
	uint8_t *bytes;
	size_t size, findings;
	int status = EXIT_UNUSABLE;

	if (file_read(path, &bytes, &size, &e)) {
		say_error(path, &e);
		return EXIT_UNUSABLE;
	}
	if (file_is_bitcode(bytes, size)) {
		status = bitcode_pass(path, bytes, size, opt);
		free(bytes);
		return status;
	}
	if (source_open(&source, &bytes, &size, &e) || elf_open_bytes(&f, path, bytes, size, &e) ||
	    file_make(&f, opt, others, &s, &done, &to, &e) || record_add(&source, opt, &done, &e)) {
		say_error(path, &e);
		goto out;
	}
	if (elf_is_slim_lto(&f))
		fprintf(stderr, "etch: %s: note: gcc -flto, no machine code yet; rewrite the linked program\n", path);
	if (opt->make.orc && !elf_is_object(&f) && !done.text)
		fprintf(stderr, "etch: %s: note: no code, and no unwind table\n", path);
	if ((done.bytes || opt->output) && write_out(to.path, done.bytes ? done.bytes : source.raw,
	                                             done.bytes ? done.size : source.raw_size, to.model))
		goto out;
	findings = rewrite_say_findings(path, &f, &s, &done.frames, opt->verbose);
	if (opt->verbose)
		rewrite_say_done(path, &f, &opt->make, &done);
	status = findings && opt->werror ? EXIT_FINDINGS : EXIT_CLEAN;
out:
	rewrite_result_free(&done);
	scan_free(&s);
	elf_close(&f);
	source_close(&source);
	return status;
}

/* Objects that one file of the command defines are known in the others. Files
 * that cannot be read are left for rewrite_file to complain about. */
static int names_collect(char **files, int count, struct name_set *names)
{
	struct elf_file f;
	struct error e;
	int i, err = 0;

	for (i = 0; i < count && count > 1 && !err; i++) {
		if (!elf_open(&f, files[i], &e) && elf_is_object(&f))
			err = scan_defined_names(&f, names, &e);
		elf_close(&f);
	}
	if (err)
		fprintf(stderr, "etch: %s\n", e.text);
	return err;
}

static int rewrite_all(char **files, int count, int first, int step, const struct options *opt,
                       const struct name_set *names)
{
	int worst = EXIT_CLEAN, status, i;

	for (i = first; i < count; i += step) {
		status = opt->undo ? undo_file(files[i], opt) : rewrite_file(files[i], opt, names);
		worst = status > worst ? status : worst;
	}
	return worst;
}

/* Files are independent: one process for every jobs-th of them. */
static int rewrite_parallel(char **files, int count, const struct options *opt, const struct name_set *names)
{
	int worst = EXIT_CLEAN, status, i, started = 0;

	for (i = 0; i < opt->jobs; i++) {
		pid_t pid = fork();

		if (!pid) {
			status = rewrite_all(files, count, i, opt->jobs, opt, names);
			fflush(stdout);
			_exit(status);
		}
		if (pid < 0) {
			status = rewrite_all(files, count, i, opt->jobs, opt, names);
			worst = status > worst ? status : worst;
		} else {
			started++;
		}
	}
	while (started--) {
		if (wait(&status) < 0)
			break;
		status = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_UNUSABLE;
		worst = status > worst ? status : worst;
	}
	return worst;
}

/* "imv,pv,orc,ex" */
static bool only_parse(const char *list, struct rewrite_options *make)
{
	const char *p = list;

	make->imv = make->pv = make->orc = make->ex = false;
	for (;;) {
		size_t n = strcspn(p, ",");

		if (n == 3 && !memcmp(p, "imv", 3))
			make->imv = true;
		else if (n == 2 && !memcmp(p, "pv", 2))
			make->pv = true;
		else if (n == 3 && !memcmp(p, "orc", 3))
			make->orc = true;
		else if (n == 2 && !memcmp(p, "ex", 2))
			make->ex = true;
		else
			break;
		if (!p[n])
			return true;
		p += n + 1;
	}
	fprintf(stderr, "etch: --only: '%s' is no list of tables that this etch makes (imv, pv, orc, ex)\n", list);
	return false;
}

static bool encoding_parse(const char *name, struct rewrite_options *make)
{
	make->encoding = !strcmp(name, "block") ? ETCH_ENCODING_BLOCK : !strcmp(name, "orc") ? ETCH_ENCODING_ORC : 0;
	if (!make->encoding)
		fprintf(stderr, "etch: --encoding is block or orc, not '%s'\n", name);
	return make->encoding;
}

static bool map_parse(const char *name, struct rewrite_options *make)
{
	bool none = !strcmp(name, "none");

	make->map_shift = !strcmp(name, "64") ? 6 : !strcmp(name, "128") ? 7 : 0;
	if (!none && !make->map_shift)
		fprintf(stderr, "etch: --unwind-map is none, 64 or 128, not '%s'\n", name);
	return none || make->map_shift;
}

/* What does not go together. */
static bool options_agree(const struct options *opt, bool only, bool orc_encoding, int files)
{
	if (opt->output && files > 1)
		fprintf(stderr, "etch: -o takes one FILE, not %d\n", files);
	else if (opt->sidecar && opt->output)
		fprintf(stderr, "etch: --sidecar names its file itself: leave -o out\n");
	else if (opt->sidecar && only && (opt->make.imv || opt->make.pv || !opt->make.orc))
		fprintf(stderr, "etch: --sidecar is for unwind tables alone: leave --only out\n");
	else if (opt->undo && (opt->sidecar || only || opt->no_undo))
		fprintf(stderr, "etch: --undo takes no other option but -o, -j and -v\n");
	else if (opt->sidecar && orc_encoding)
		fprintf(stderr, "etch: --sidecar has the block encoding: leave --encoding out\n");
	else
		return true;
	return false;
}

int cmd_rewrite(int argc, char **argv)
{
	static const struct option longs[] = {
		{"output", required_argument, NULL, 'o'},
		{"jobs", required_argument, NULL, 'j'},
		{"only", required_argument, NULL, 'O'},
		{"no-cfi", no_argument, NULL, 'C'},
		{"encoding", required_argument, NULL, 'E'},
		{"unwind-map", required_argument, NULL, 'M'},
		{"sidecar", required_argument, NULL, 'S'},
		{"undo", no_argument, NULL, 'U'},
		{"no-undo", no_argument, NULL, 'N'},
		{"werror", no_argument, NULL, 'W'},
		{"verbose", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'},
		{0, 0, NULL, 0},
	};
	struct options opt = {.jobs = 1, .make = {.imv = true, .pv = true, .orc = true, .ex = true,
	                                        .encoding = ETCH_ENCODING_BLOCK, .map_shift = 6}};
	struct name_set names = {0};
	bool good = true, only = false, orc_encoding = false;
	int c, status;
	char *end;

	while ((c = getopt_long(argc, argv, "o:j:vh", longs, NULL)) != -1) {
		switch (c) {
		case 'o':
			opt.output = optarg;
			break;
		case 'j':
			opt.jobs = (int)strtol(optarg, &end, 10);
			if (*end || opt.jobs < 1 || opt.jobs > 1024) {
				fprintf(stderr, "etch: -j wants a number from 1 to 1024, not '%s'\n", optarg);
				return EXIT_UNUSABLE;
			}
			break;
		case 'O':
			only = true;
			good = only_parse(optarg, &opt.make);
			break;
		case 'C':
			opt.make.no_cfi = true;
			break;
		case 'E':
			good = encoding_parse(optarg, &opt.make);
			orc_encoding = opt.make.encoding == ETCH_ENCODING_ORC;
			break;
		case 'M':
			good = map_parse(optarg, &opt.make);
			break;
		case 'S':
			opt.sidecar = optarg;
			break;
		case 'U':
			opt.undo = true;
			break;
		case 'N':
			opt.no_undo = true;
			break;
		case 'W':
			opt.werror = true;
			break;
		case 'v':
			opt.verbose = true;
			break;
		case 'h':
			help();
			return EXIT_CLEAN;
		default:
			fprintf(stderr, "etch: see etch rewrite --help\n");
			return EXIT_UNUSABLE;
		}
		if (!good)
			return EXIT_UNUSABLE;
	}
	argv += optind;
	argc -= optind;
	if (!argc) {
		fprintf(stderr, "etch: rewrite what? see etch rewrite --help\n");
		return EXIT_UNUSABLE;
	}
	if (!options_agree(&opt, only, orc_encoding, argc))
		return EXIT_UNUSABLE;
	if (opt.sidecar)
		opt.make.imv = opt.make.pv = opt.make.ex = false;
	if (!opt.undo && (opt.make.imv || opt.make.pv) && names_collect(argv, argc, &names))
		return EXIT_UNUSABLE;
	opt.make.jobs = argc == 1 ? opt.jobs : 1;
	status = opt.jobs > 1 && argc > 1 ? rewrite_parallel(argv, argc, &opt, &names)
	                                  : rewrite_all(argv, argc, 0, 1, &opt, &names);
	name_set_free(&names);
	return status;
}
