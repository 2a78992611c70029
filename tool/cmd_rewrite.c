/* SPDX-License-Identifier: MIT */
/* etch rewrite: one verb. What to do is seen from the file. */
#include "command.h"
#include "elf/lines.h"
#include "elf/outfile.h"
#include "rewrite.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct options {
	const char *output;
	bool werror, verbose;
	int jobs;
};

static void help(void)
{
	printf("Usage: etch rewrite [OPTION...] FILE...\n"
	       "\n"
	       "An object file (after compile): finds every instruction that reads an etched\n"
	       "object (ETCHED, DEFINE_IMV) and adds the tables __imv and __etch_obj. Its code is\n"
	       "not changed.\n"
	       "A program or shared library (after link): finds what the object step could not\n"
	       "see, sorts the tables and turns the loads that can be changed while threads run\n"
	       "into immediates. Both steps may be left out; the program works all the same.\n"
	       "\n"
	       "The file is replaced as a whole or not at all. Rewriting twice is rewriting once.\n"
	       "LLVM bitcode (clang -flto -c) is left alone: rewrite the linked program.\n"
	       "\n"
	       "  -o, --output OUT   write to OUT and leave FILE as it is (one FILE only)\n"
	       "  -j, --jobs N       work on N files at a time\n"
	       "      --only LIST    tables to make, separated by commas; now: imv (the default)\n"
	       "      --werror       exit 1 when there is a finding (see docs/findings.md)\n"
	       "  -v, --verbose      say in one line a file what was done\n"
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

/* One line each: FILE: ID: function+offset (source line): what. */
static void say_findings(const char *path, const struct elf_file *f, const struct scan *s)
{
	struct lines *lines = s->finding_count ? lines_open(f) : NULL;
	size_t i;

	for (i = 0; i < s->finding_count; i++) {
		const struct finding *x = &s->findings[i];
		char source[256] = "-";

		if (x->section)
			lines_find(lines, x->section, x->addr, source, sizeof(source));
		fprintf(stderr, source[0] == '-' ? "etch: %s: %s: %s%.0s: %s\n" : "etch: %s: %s: %s (%s): %s\n",
		        path, x->id, x->where, source, x->text);
	}
	lines_close(lines);
}

static void say_done(const char *path, const struct elf_file *f, const struct rewrite_result *r)
{
	if (elf_is_object(f))
		printf("%s: %zu sites, %zu loads without an immediate form%s\n", path, r->sites, r->kept,
		       r->bytes ? "" : " (unchanged)");
	else
		printf("%s: %zu sites, %zu live, %zu baked, %zu loads without an immediate form%s\n", path, r->sites,
		       r->live, r->baked, r->kept, r->bytes ? "" : " (unchanged)");
}

static int rewrite_file(const char *path, const struct options *opt, const struct name_set *others)
{
	struct rewrite_result done = {0};
	struct elf_file f = {0};
	struct scan s = {0};
	struct error e;
	uint8_t *bytes;
	size_t size;
	int status = EXIT_UNUSABLE;

	if (file_read(path, &bytes, &size, &e)) {
		say_error(path, &e);
		return EXIT_UNUSABLE;
	}
	if (file_is_bitcode(bytes, size)) {
		fprintf(stderr, "etch: %s: note: LLVM bitcode, left as it is; rewrite the linked program\n", path);
		status = EXIT_CLEAN;
		if (opt->output && outfile_write(opt->output, bytes, size, path, e.text, sizeof(e.text))) {
			fprintf(stderr, "etch: %s\n", e.text);
			status = EXIT_UNUSABLE;
		}
		free(bytes);
		return status;
	}
	if (elf_open_bytes(&f, path, bytes, size, &e) ||
	    (elf_is_object(&f) ? rewrite_object(&f, others, &s, &done, &e) : rewrite_linked(&f, &s, &done, &e))) {
		say_error(path, &e);
		goto out;
	}
	if (elf_is_slim_lto(&f))
		fprintf(stderr, "etch: %s: note: gcc -flto, no machine code yet; rewrite the linked program\n", path);
	if ((done.bytes || opt->output) &&
	    outfile_write(opt->output ? opt->output : path, done.bytes ? done.bytes : f.bytes,
	                  done.bytes ? done.size : f.size, path, e.text, sizeof(e.text))) {
		fprintf(stderr, "etch: %s\n", e.text);
		goto out;
	}
	say_findings(path, &f, &s);
	if (opt->verbose)
		say_done(path, &f, &done);
	status = s.finding_count && opt->werror ? EXIT_FINDINGS : EXIT_CLEAN;
out:
	free(done.bytes);
	scan_free(&s);
	elf_close(&f);
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
		status = rewrite_file(files[i], opt, names);
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

int cmd_rewrite(int argc, char **argv)
{
	static const struct option longs[] = {
		{"output", required_argument, NULL, 'o'}, {"jobs", required_argument, NULL, 'j'},
		{"only", required_argument, NULL, 'O'},   {"werror", no_argument, NULL, 'W'},
		{"verbose", no_argument, NULL, 'v'},      {"help", no_argument, NULL, 'h'},
		{0, 0, NULL, 0},
	};
	struct options opt = {.jobs = 1};
	struct name_set names = {0};
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
			if (strcmp(optarg, "imv")) {
				fprintf(stderr, "etch: --only: '%s' is no table that this etch makes (imv)\n", optarg);
				return EXIT_UNUSABLE;
			}
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
	}
	argv += optind;
	argc -= optind;
	if (!argc) {
		fprintf(stderr, "etch: rewrite what? see etch rewrite --help\n");
		return EXIT_UNUSABLE;
	}
	if (opt.output && argc > 1) {
		fprintf(stderr, "etch: -o takes one FILE, not %d\n", argc);
		return EXIT_UNUSABLE;
	}
	if (names_collect(argv, argc, &names))
		return EXIT_UNUSABLE;
	status = opt.jobs > 1 && argc > 1 ? rewrite_parallel(argv, argc, &opt, &names)
	                                  : rewrite_all(argv, argc, 0, 1, &opt, &names);
	name_set_free(&names);
	return status;
}
