/* SPDX-License-Identifier: MIT */
/* etch rewrite, one file: read, taken through the steps, written; or put back. */
#include "command.h"
#include "elf/memory.h"
#include "elf/outfile.h"
#include "elf/undo.h"
#include "report/text.h"
#include "rewrite/files.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static int file_make(struct elf_file *f, const struct rewrite_command *opt, const struct name_set *others, struct scan *s,
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
	const uint8_t *shared;   /* what the steps see */
};

/* *bytes becomes what the steps are to see. Where the file has been changed since, what it was
 * before cannot be told any more: it begins anew with what it is. */
static int source_open(struct source *s, uint8_t **bytes, size_t *size, struct error *e)
{
	struct error stale;
	const uint8_t *begin;

	s->raw = *bytes;
	s->raw_size = *size;
	if (undo_detach(s->raw, s->raw_size, &s->undo, &stale) < 0 && error_no_memory(&stale))
		return error_set(e, "%s", stale.text);
	begin = s->undo.kept ? s->undo.kept : s->raw;
	*size = s->undo.kept ? s->undo.kept_size : s->raw_size;
	s->original = s->undo.original ? s->undo.original : begin;
	s->original_size = s->undo.original ? s->undo.original_size : *size;
	s->shared = begin; /* whoever changes one of its bytes copies it: elf_bytes_own() */
	*bytes = (uint8_t *)begin;
	return 0;
}

/* After the last look at f. */
static void source_close(struct source *s, struct elf_file *f)
{
	if (f->bytes == s->shared)
		f->bytes = NULL;
	elf_close(f);
	undo_free(&s->undo);
	free(s->raw);
}

/* The bytes to be written, with the record of what they were; done->bytes null: the file is
 * right as it is. */
static int record_add(const struct source *s, const struct rewrite_command *opt, struct rewrite_result *done, struct error *e)
{
	int r;

	if (opt->sidecar)
		return 0;
	if (!done->bytes) {
		/* Nothing to do. A record goes on: it is as it should be, or what chrpath, say, has changed since makes
		 * it stale, which --undo can tell by nothing else. */
		if (!s->undo.kept || !opt->no_undo)
			return 0;
		done->size = s->undo.kept_size;
		done->bytes = malloc(done->size + 1);
		if (!done->bytes)
			return error_set(e, "out of memory");
		memcpy(done->bytes, s->undo.kept, done->size);
	}
	if (opt->no_undo)
		return 0;
	r = undo_attach(&done->bytes, &done->size, s->original, s->original_size, e);
	if (r <= 0)
		return r;
	if (done->size == s->raw_size && !memcmp(done->bytes, s->raw, s->raw_size)) {
		free(done->bytes);
		done->bytes = NULL;
	}
	return 0;
}

/* `seen`: to the place that it was read from; else made like `model`. */
static int write_out(const char *to, const uint8_t *bytes, size_t size, const struct file_mark *seen, const char *model)
{
	char text[PATH_MAX + 256];

	if (seen ? !outfile_replace(to, bytes, size, seen, text, sizeof(text)) :
	           !outfile_write(to, bytes, size, model, text, sizeof(text)))
		return 0;
	text_error(NULL, "%s", text);
	return -1;
}

/* A file that is replaced leaves those behind: said where somebody wants to know. */
static void say_names(const char *path, const struct rewrite_command *opt, const struct file_mark *seen)
{
	if (!opt->verbose || opt->output || opt->sidecar || seen->names < 2)
		return;
	text_clean_name(stdout, path, NULL);
	printf(": has %llu more names (hard links), which lead to the file as it was\n", (unsigned long long)seen->names - 1);
}

static int bitcode_pass(const char *path, const uint8_t *bytes, size_t size, const struct rewrite_command *opt)
{
	text_error(path, "note: LLVM bitcode, left as it is; rewrite the linked program");
	return opt->output && write_out(opt->output, bytes, size, NULL, path) ? EXIT_UNUSABLE : EXIT_CLEAN;
}

int undo_file(const char *path, const struct rewrite_command *opt)
{
	int status = EXIT_UNUSABLE, found;
	struct file_mark seen;
	struct undo undo = {0};
	struct error e;
	uint8_t *bytes;
	size_t size;

	if (file_read_marked(path, &bytes, &size, &seen, &e)) {
		text_error(path, "%s", e.text);
		return status;
	}
	found = undo_detach(bytes, size, &undo, &e);
	if (!found)
		error_set(&e, "has no record of what it was: etch did not rewrite it, or with --no-undo, or "
		          "strip has dropped it since");
	if (found <= 0)
		text_error(path, "%s", e.text);
	else if (!write_out(opt->output ? opt->output : path, undo.original, undo.original_size,
	                    opt->output ? NULL : &seen, path))
		status = EXIT_CLEAN;
	if (found > 0 && !status && opt->verbose) {
		text_clean_name(stdout, path, NULL);
		printf(": as it was before etch rewrite, %zu bytes\n", undo.original_size);
		say_names(path, opt, &seen);
	}
	undo_free(&undo);
	free(bytes);
	return status;
}

/* How much further in the file its lowest segment lies now. */
static uint64_t moved_by(const struct elf_file *f, const uint8_t *made, const Elf64_Ehdr *eh)
{
	const Elf64_Phdr *old = f->phdrs;
	Elf64_Phdr p;
	uint32_t i;

	while (old < f->phdrs + f->phdr_count && old->p_type != PT_LOAD)
		old++;
	for (i = 0; i < eh->e_phnum && old < f->phdrs + f->phdr_count; i++) {
		memcpy(&p, made + eh->e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type == PT_LOAD && p.p_vaddr == old->p_vaddr)
			return p.p_offset - old->p_offset;
	}
	return 0;
}

/* What who goes on with such a file has to know. */
static void say_headers(const char *path, const struct elf_file *f, const struct rewrite_result *done)
{
	uint64_t by;
	Elf64_Ehdr eh;

	if (elf_is_object(f) || !done->bytes || done->size < sizeof(eh))
		return;
	memcpy(&eh, done->bytes, sizeof(eh));
	if (eh.e_phoff != f->eh.e_phoff && eh.e_phoff != sizeof(eh))
		text_error(path, "note: its program headers are at its end now; GNU strip and objcopy damage such a file, "
		           "eu-strip does not");
	by = moved_by(f, done->bytes, &eh);
	if (by)
		text_error(path, "note: for its program headers, all of it is %" PRIu64 " bytes further in the file now (at "
		           "the same addresses)", by);
}

int rewrite_file(const char *path, const struct rewrite_command *opt, const struct name_set *others)
{
	struct rewrite_result done = {0};
	struct source source = {0};
	struct elf_file f = {0};
	struct scan s = {0};
	struct file_mark seen;
	struct place to;
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
	if (source_open(&source, &bytes, &size, &e) || elf_open_bytes(&f, path, bytes, size, &e) ||
	    file_make(&f, opt, others, &s, &done, &to, &e) || record_add(&source, opt, &done, &e)) {
		text_error(path, "%s", e.text);
		goto out;
	}
	if (elf_is_slim_lto(&f))
		text_error(path, "note: gcc -flto, no machine code yet; rewrite the linked program");
	if (opt->make.orc && !elf_is_object(&f) && !done.text)
		text_error(path, "note: no code, and no unwind table");
	if ((done.bytes || opt->output) && write_out(to.path, done.bytes ? done.bytes : source.raw,
	                                             done.bytes ? done.size : source.raw_size,
	                                             opt->output || opt->sidecar ? NULL : &seen, to.model))
		goto out;
	if (!opt->sidecar) /* which is a table alone */
		say_headers(path, &f, &done);
	findings = rewrite_say_findings(path, &f, &s, &done.frames, opt->verbose);
	if (opt->verbose)
		rewrite_say_done(path, &f, &opt->make, &done);
	if (done.bytes)
		say_names(path, opt, &seen);
	status = findings && opt->werror ? EXIT_FINDINGS : EXIT_CLEAN;
out:
	rewrite_result_free(&done);
	scan_free(&s);
	source_close(&source, &f);
	return status;
}
