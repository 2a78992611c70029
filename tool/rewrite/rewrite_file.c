/* SPDX-License-Identifier: MIT */
/* `etch rewrite` for one file: reads it, runs the steps and writes the result, or undoes an earlier rewrite. */
#include "support/bounds.h"
#include "support/exit_code.h"
#include "support/memory.h"
#include "output/debug_file.h"
#include "output/outfile.h"
#include "output/segment.h"
#include "output/undo.h"
#include "report/text.h"
#include "rewrite/files.h"
#include "unwinding/sidecar_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The output path, and the file from which the output takes its permissions (`model`). */
struct output_place {
	const char *path, *model;
	char apart[4096];             /* holds the path of a sidecar or debug file */
	int directory;                /* of a sidecar; 0: the output is none */
	char name[SIDECAR_NAME_MOST]; /* file name of a sidecar in that directory */
};

/* Writes the name of the sidecar in its directory: the build-id in hexadecimal, or the second name if the first is that
 * of another file's sidecar. */
static void sidecar_name(const struct sidecar_identity *of, const char *id, int directory, char *out)
{
	struct sidecar head;
	bool untrusted;
	uint64_t size;
	int fd = sidecar_open(directory, id, &size, &untrusted);
	bool others = fd >= 0 && pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
	              sidecar_judge(&head, size, of->layout) == SIDECAR_OTHERS;

	if (fd >= 0)
		close(fd);
	if (others)
		sidecar_second_name(out, id, of);
	else
		strcpy(out, id);
}

/* Opens the directory of the sidecar, and sets the path that messages show. */
static int sidecar_place(const struct elf_file *f, const char *directory, const struct sidecar_identity *of,
                         struct output_place *to, struct error *e)
{
	char text[2 * SIDECAR_ID_MOST + 1];
	const uint8_t *id;
	size_t n = elf_build_id(f, &id);

	if (elf_is_object(f))
		return error_set(e, "is an object file: a sidecar is for programs and libraries");
	if (!n)
		return error_set(e, "has no build-id, which a sidecar needs (link with -Wl,--build-id)");
	if (n > SIDECAR_ID_MOST)
		return error_set(e, "has a build-id of %zu bytes: a sidecar is for at most %d", n, SIDECAR_ID_MOST);
	for (size_t i = 0; i < n; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
	to->directory = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (to->directory < 0)
		return error_set(e, "%s: %s", directory, strerror(errno));
	sidecar_name(of, text, to->directory, to->name);
	if (snprintf(to->apart, sizeof(to->apart), "%s/%s", directory, to->name) >= (int)sizeof(to->apart))
		return error_set(e, "the path of its sidecar is too long");
	to->path = to->apart;
	to->model = NULL;
	return 0;
}

/* Is the output a file of its own instead of the input's new version? */
static bool is_apart(const struct rewrite_command *opt) { return opt->sidecar || opt->debug_out; }

/* Makes the folders of a debug file: the directory exists, but .build-id and the folder in it may be missing. */
static int folders_make(char *path, size_t directory, struct error *e)
{
	char *slash = path + directory;

	while ((slash = strchr(slash + 1, '/'))) {
		*slash = 0;
		if (mkdir(path, 0777) && errno != EEXIST)
			return error_set(e, "%s: %s", path, strerror(errno));
		*slash = '/';
	}
	return 0;
}

void rewrite_result_free(struct rewrite_result *r)
{
	free(r->bytes);
	unwind_made_free(&r->unwind);
	memset(r, 0, sizeof(*r));
}

/* Moves the bytes of the unwind table, which is a file of its own, to the result. */
static void bytes_take(struct rewrite_result *result)
{
	result->bytes = result->unwind.bytes;
	result->size = result->unwind.size;
	result->unwind.bytes = NULL;
}

/* Makes the separate debug file of --eh-frame=OUT: named by build-id in OUT if that is a directory, otherwise OUT
 * itself. */
static int debug_make(struct elf_file *f, const struct rewrite_command *opt, struct rewrite_result *result,
                      struct output_place *to, struct error *e)
{
	struct stat st;
	bool directory = !stat(opt->debug_out, &st) && S_ISDIR(st.st_mode);

	to->path = opt->debug_out;
	to->model = NULL;
	memset(result, 0, sizeof(*result));
	if (elf_is_object(f))
		return error_set(e, "is an object file: a debug file is for programs and libraries");
	if (directory && debug_file_path(f, opt->debug_out, to->apart, sizeof(to->apart), e))
		return -1;
	if (unwind_debug(f, &opt->make.unwind, &result->unwind, e))
		return -1;
	bytes_take(result);
	if (!directory)
		return 0;
	to->path = to->apart;
	return result->bytes ? folders_make(to->apart, strlen(opt->debug_out), e) : 0;
}

/* The result of the steps, and where it is written. Initially zeroed. */
struct outcome {
	struct scan scan;
	struct rewrite_result result;
	struct output_place to;
};

static void outcome_free(struct outcome *m)
{
	rewrite_result_free(&m->result);
	scan_free(&m->scan);
	if (m->to.directory > 0)
		close(m->to.directory);
}

/* Makes the sidecar of a file. Its identity is taken from the file before the steps change bytes in memory. */
static int sidecar_make(struct elf_file *f, const struct rewrite_command *opt, struct rewrite_result *result,
                        struct output_place *to, struct error *e)
{
	struct unwind_options options = opt->make.unwind;
	struct sidecar_identity of;

	sidecar_identify_bytes(f->bytes, f->size, &of);
	options.encoding = ETCH_ENCODING_BLOCK;
	if (sidecar_place(f, opt->sidecar, &of, to, e) || unwind_sidecar(f, &options, &result->unwind, e))
		return -1;
	bytes_take(result);
	if (result->bytes)
		sidecar_wrap(&result->bytes, &result->size, &of);
	return 0;
}

static int file_make(struct elf_file *f, const struct rewrite_command *opt, const struct name_set *others,
                     struct outcome *out, struct error *e)
{
	const struct rewrite_options *options = &opt->make;
	struct rewrite_result *result = &out->result;
	struct output_place *to = &out->to;

	to->path = opt->output ? opt->output : f->path;
	to->model = f->path;
	if (opt->debug_out)
		return debug_make(f, opt, result, to, e);
	if (opt->sidecar) {
		out->scan.file = f;
		if (sidecar_make(f, opt, result, to, e))
			return -1;
		far_code_finding_add(&out->scan, result);
		return 0;
	}
	if (elf_is_object(f) && options->unwind.eh_frame)
		return error_set(e, "is an object file: --eh-frame is for programs and libraries");
	return elf_is_object(f) ? rewrite_object(f, options, others, &out->scan, result, e)
	                        : rewrite_linked(f, options, &out->scan, result, e);
}

/*
 * Ensures that rewriting is idempotent: if rewrite_doubt() gives a reason, the output goes through the steps once more,
 * and a different result is an error. A file that a linker wrote and etch has not rewritten yet gives no reason.
 */
static int again_check(const struct elf_file *was, const struct rewrite_command *opt, const struct name_set *others,
                       const struct rewrite_result *result, struct error *e)
{
	const char *doubt = result->bytes && !is_apart(opt) ? rewrite_doubt(was, &opt->make) : NULL;
	struct elf_file f = {0};
	struct outcome again = {0};
	int err = 0;

	if (!doubt)
		return 0;
	if (elf_open_bytes(&f, was->path, result->bytes, result->size, e) || file_make(&f, opt, others, &again, e) ||
	    again.result.bytes)
		err = error_set(e, "%s: a second rewrite would change the file again", doubt);
	outcome_free(&again);
	if (f.bytes == result->bytes)
		f.bytes = NULL;
	elf_close(&f);
	return err;
}

/* The input, and what an earlier run has left in it. */
struct source {
	uint8_t *raw; /* the file as it was read */
	size_t raw_size;
	struct undo undo;  /* its undo record: the file without the record (`kept`), and the original; if there is one */
	struct undo inner; /* record of undo.original, which may have one too, a stale one */
	const uint8_t *original; /* the bytes that a later --undo is to restore */
	size_t original_size;
	const uint8_t *start; /* the bytes that the steps start from; in `raw`, `undo` or `inner`, one of which owns them */
};

/* Do these bytes of an ELF file have a program header of this type? For an object file, which has none, the answer is
 * yes. */
static bool has_phdr(const uint8_t *bytes, size_t size, uint32_t type)
{
	Elf64_Ehdr eh;
	Elf64_Phdr p;
	uint64_t i;

	if (size < sizeof(eh))
		return false;
	memcpy(&eh, bytes, sizeof(eh));
	if (eh.e_type == ET_REL)
		return true;
	for (i = 0; i < eh.e_phnum && eh.e_phoff < size && (size - eh.e_phoff) / sizeof(p) > i; i++) {
		memcpy(&p, bytes + eh.e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type == type)
			return true;
	}
	return false;
}

/* Does a rewritten file lack a program header for a table that is asked for? */
static bool lacks_phdr(const uint8_t *bytes, size_t size, const struct unwind_options *o)
{
	return (o->sframe && !has_phdr(bytes, size, PT_GNU_SFRAME)) ||
	       (o->eh_frame && !has_phdr(bytes, size, PT_GNU_EH_FRAME));
}

/* Returns the end of the segments of a program at fixed addresses, where the kernel begins its heap, or 0 for any other
 * file. */
static uint64_t break_of(const uint8_t *bytes, size_t size)
{
	uint64_t i, end = 0;
	Elf64_Ehdr eh;
	Elf64_Phdr p;

	if (size < sizeof(eh))
		return 0;
	memcpy(&eh, bytes, sizeof(eh));
	if (eh.e_type != ET_EXEC)
		return 0;
	for (i = 0; i < eh.e_phnum && eh.e_phoff < size && (size - eh.e_phoff) / sizeof(p) > i; i++) {
		memcpy(&p, bytes + eh.e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type == PT_LOAD && p.p_vaddr + p.p_memsz > end)
			end = p.p_vaddr + p.p_memsz;
	}
	return end;
}

/* Makes the options ask for the tables that a rewritten file has, which a run that starts from that file would make
 * again by itself. Returns 0, or -1 and a message. */
static int options_keep(const char *path, uint8_t *bytes, size_t size, struct rewrite_options *o, struct error *e)
{
	struct elf_file f = {0};
	int err = elf_open_bytes(&f, path, bytes, size, e);

	if (!err) {
		if (!o->unwind.sframe)
			o->unwind.sframe = linked_unwind_sframe_version(&f);
		o->unwind.registers |= linked_unwind_has_registers(&f);
		if (!o->unwind.eh_frame && linked_unwind_has_eh_frame(&f)) {
			o->unwind.eh_frame = true;
			o->unwind.replace = rewrite_note_replaces(&f);
		}
	}
	f.bytes = NULL; /* the caller owns them */
	elf_close(&f);
	return err;
}

/*
 * Sets *bytes and *size to what the steps start from:
 *
 *   the file itself, if it has no undo record;
 *   the file without its record, normally. If it was changed since the record was written, the original can no longer
 *     be restored, and the file as it is becomes the new original;
 *   the original, if the etch segment of the earlier run has no program header for a table that is asked for;
 *   the original, if that segment moves the program's heap, as segments of earlier versions of etch do. Then `o` also
 *     asks for the tables of that run.
 *
 * The original is used only if all tables are made. A record of another version of etch is an error, since the etch
 * that wrote it can restore the original.
 */
static int source_open(struct source *s, const char *path, struct rewrite_options *o, uint8_t **bytes, size_t *size,
                       struct error *e)
{
	bool all = o->imv && o->pv && o->orc && o->ex, moved;
	struct error stale;
	const uint8_t *begin;

	s->raw = *bytes;
	s->raw_size = *size;
	if (undo_detach(s->raw, s->raw_size, &s->undo, &stale) < 0 && s->undo.unknown)
		return error_set(e, "%s", stale.text);
	begin = s->undo.kept ? s->undo.kept : s->raw;
	*size = s->undo.kept ? s->undo.kept_size : s->raw_size;
	moved = s->undo.original && break_of(begin, *size) > break_of(s->undo.original, s->undo.original_size);
	if (moved && all && options_keep(path, s->undo.kept, s->undo.kept_size, o, e))
		return -1;
	if (all && s->undo.original && (moved || lacks_phdr(begin, *size, &o->unwind))) {
		begin = s->undo.original;
		*size = s->undo.original_size;
		(void)undo_detach(begin, *size, &s->inner, &stale);
		if (s->inner.kept) {
			begin = s->inner.kept;
			*size = s->inner.kept_size;
		}
	}
	s->original = s->undo.original ? s->undo.original : s->raw;
	s->original_size = s->undo.original ? s->undo.original_size : s->raw_size;
	s->start = begin; /* elf_bytes_own() copies them before they are changed */
	*bytes = (uint8_t *)begin;
	return 0;
}

/* Frees the source and closes f, whose bytes may be the source's. */
static void source_close(struct source *s, struct elf_file *f)
{
	if (f->bytes == s->start)
		f->bytes = NULL;
	elf_close(f);
	undo_free(&s->undo);
	undo_free(&s->inner);
	free(s->raw);
}

/* Adds the undo record to the output. If the complete output equals the input, it sets result->bytes to null, since
 * nothing is to be written. */
static int record_add(const struct source *s, const struct rewrite_command *opt, struct rewrite_result *result,
                      struct error *e)
{
	if (is_apart(opt))
		return 0;
	if (!result->bytes) {
		/* The steps changed nothing. An existing record stays (unless --no-undo), even a stale one: if chrpath, for
		 * example, changed the file, --undo can detect that only by the record. */
		if (!s->undo.kept || !opt->no_undo)
			return 0;
		result->size = s->undo.kept_size;
		result->bytes = mem_copy(s->undo.kept, result->size);
	}
	if (opt->no_undo)
		return 0;
	if (!undo_attach(&result->bytes, &result->size, s->original, s->original_size,
	                 e)) /* never write a rewrite that cannot be undone */
		return -1;
	if (result->size == s->raw_size && !memcmp(result->bytes, s->raw, s->raw_size)) {
		free(result->bytes);
		result->bytes = NULL;
	}
	return 0;
}

/* Writes the output. With `seen` it replaces the input, under all names in `in`; otherwise the output gets the
 * permissions of `model`. */
static int write_out(const char *to, const uint8_t *bytes, size_t size, const struct file_mark *seen,
                     const struct input *in, const char *model)
{
	struct error e;

	if (seen ? !outfile_replace(&(struct outfile_target){to, in->links, in->link_count, seen}, bytes, size, &e)
	         : !outfile_write(to, bytes, size, model, &e))
		return 0;
	text_error(NULL, "%s", e.text);
	return -1;
}

static int sidecar_put(const struct output_place *to, const struct rewrite_result *result)
{
	struct error e;

	if (!outfile_write_in(to->directory, to->name, to->path, result->bytes, result->size, &e))
		return 0;
	text_error(NULL, "%s", e.text);
	return -1;
}

/* With -v, reports that there are hard links to a replaced file that were not named and so keep the old contents. */
static void print_names(const struct input *in, const struct rewrite_command *opt, const struct file_mark *seen)
{
	if (!opt->verbose || opt->output || is_apart(opt) || seen->names < in->link_count + 2)
		return;
	text_clean_name(stdout, in->path, NULL);
	printf(": %llu more hard links still lead to the old contents\n",
	       (unsigned long long)(seen->names - in->link_count - 1));
}

static int bitcode_pass(const char *path, const uint8_t *bytes, size_t size, const struct rewrite_command *opt)
{
	text_remark(path, "note: LLVM bitcode, left alone; rewrite the linked program");
	return opt->output && write_out(opt->output, bytes, size, NULL, NULL, path) ? EXIT_UNUSABLE : EXIT_CLEAN;
}

/* Writes the original to the output, or in place of the file. Returns 0, or -1 after printing a message. */
static int undo_write(const struct undo_reader *u, const struct input *in, const struct rewrite_command *opt,
                      const struct file_mark *seen, uint64_t *size)
{
	const struct outfile_source *from = undo_source(u, size);
	const struct outfile_target target = {in->path, in->links, in->link_count, seen};
	struct error e;

	if (opt->output ? !outfile_write_from(opt->output, from, in->path, &e) : !outfile_replace_from(&target, from, &e))
		return 0;
	text_error(NULL, "%s", e.text);
	return -1;
}

int undo_file(const struct input *in, const struct rewrite_command *opt)
{
	const char *path = in->path;
	int status = EXIT_UNUSABLE, found;
	struct undo_reader *undo;
	struct file_mark seen;
	struct error e;
	uint64_t size;
	int fd = file_open_marked(path, &seen, &e);

	if (fd < 0) {
		text_error(path, "%s", e.text);
		return status;
	}
	bounds_add(path, seen.size);
	found = undo_open(fd, &seen, &undo, &e);
	if (!found)
		error_set(&e, "has no undo record: not rewritten by etch, rewritten with --no-undo, or stripped since");
	if (found <= 0)
		text_error(path, "%s", e.text);
	else if (!undo_write(undo, in, opt, &seen, &size))
		status = EXIT_CLEAN;
	if (found > 0 && !status && opt->verbose) {
		text_clean_name(stdout, path, NULL);
		printf(": restored, %" PRIu64 " bytes\n", size);
		print_names(in, opt, &seen);
	}
	undo_close(undo);
	close(fd);
	return status;
}

static void print_notes(const struct elf_file *f, const struct rewrite_command *opt,
                        const struct rewrite_result *result)
{
	if (elf_is_slim_lto(f))
		text_remark(f->path, "note: gcc -flto, no machine code yet; rewrite the linked program");
	if (opt->make.orc && !elf_is_object(f) && !result->unwind.text)
		text_remark(f->path, "note: no code, and no unwind table");
	if (opt->debug_out && !result->bytes)
		text_remark(f->path, "note: all its code has FDEs: no debug file is written");
}

/* Writes the output, which is the input if nothing changed and --output asks for a file. Returns 0, or -1 after
 * printing a message. */
static int output_put(const struct input *in, const struct rewrite_command *opt, const struct source *source,
                      const struct outcome *made, const struct file_mark *seen)
{
	const struct rewrite_result *result = &made->result;
	const struct output_place *to = &made->to;

	if (opt->sidecar && result->bytes)
		return sidecar_put(to, result);
	if (result->bytes)
		return write_out(to->path, result->bytes, result->size, opt->output || is_apart(opt) ? NULL : seen, in,
		                 to->model);
	return opt->output ? write_out(to->path, source->raw, source->raw_size, NULL, in, to->model) : 0;
}

int rewrite_file(const struct input *in, const struct rewrite_command *given, const struct name_set *others)
{
	struct rewrite_command own = *given; /* source_open() adds to these options */
	const struct rewrite_command *opt = &own;
	const char *path = in->path;
	struct source source = {0};
	struct elf_file f = {0};
	struct outcome made = {0};
	struct rewrite_result *result = &made.result;
	struct file_mark seen;
	struct error e;
	uint8_t *bytes;
	size_t size, findings;
	int status = EXIT_UNUSABLE;

	if (file_read_marked(path, &bytes, &size, &seen, &e)) {
		text_error(path, "%s", e.text);
		return EXIT_UNUSABLE;
	}
	if (file_is_bitcode(bytes, size)) {
		status = bitcode_pass(path, bytes, size, opt);
		free(bytes);
		return status;
	}
	if (source_open(&source, path, &own.make, &bytes, &size, &e) || elf_open_bytes(&f, path, bytes, size, &e) ||
	    file_make(&f, opt, others, &made, &e) || again_check(&f, opt, others, result, &e) ||
	    record_add(&source, opt, result, &e)) {
		text_error(path, "%s", e.text);
		goto out;
	}
	print_notes(&f, opt, result);
	if (output_put(in, opt, &source, &made, &seen))
		goto out;
	if (!is_apart(opt)) /* a sidecar has no ELF headers */
		rewrite_print_headers(path, &f, result);
	findings = rewrite_print_findings(path, &f, &made.scan, result, opt->verbose);
	rewrite_print_objects(path, &made.scan, opt->verbose);
	if (opt->verbose)
		rewrite_print_summary(path, &f, &opt->make, result);
	if (result->bytes)
		print_names(in, opt, &seen);
	status = findings && opt->werror ? EXIT_FINDINGS : EXIT_CLEAN;
out:
	outcome_free(&made);
	source_close(&source, &f);
	return status;
}
