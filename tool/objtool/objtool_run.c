/* SPDX-License-Identifier: MIT */
/* The steps of `etch objtool` for one file. */
#include "objtool/objtool.h"
#include "arch/x86/stack.h"
#include "elf/outfile.h"
#include "objtool/code_map.h"
#include "report/text.h"
#include "support/bounds.h"
#include "support/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTIONS_MOST (SITE_SECTIONS + 2u)

/* Entry code's symbols are of no type. */
static bool is_sized_label(const struct elf_file *f, const struct elf_symbol *y)
{
	(void)f;
	return y->section && y->size && y->type != STT_SECTION && y->name[0];
}

void place_names_free(struct place_names *names)
{
	symbol_index_free(&names->list);
	symbol_index_free(&names->others);
}

void objtool_place(const struct elf_file *f, struct place_names *names, uint32_t section, uint64_t at, char *out,
                   size_t size)
{
	const struct symbol_index *x = &names->list;
	size_t n;

	if (!names->read)
		symbol_index_build(f, symbol_is_place, &names->list);
	names->read = true;
	if (!symbol_index_find(x, section, at)) {
		x = &names->others;
		if (!names->others_read)
			symbol_index_build(f, is_sized_label, &names->others);
		names->others_read = true;
	}
	symbol_index_describe(x, f, section, at, out, size);
	n = strlen(out);
	if (!strchr(out, '+'))
		snprintf(out + n, size - n, "+0x0");
}

void objtool_say(const struct elf_file *f, const char *format, ...)
{
	char *text, *line;
	va_list ap;

	if (text_is_quiet())
		return;
	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0)
		text = NULL;
	va_end(ap);
	if (text && asprintf(&line, "%s: warning: objtool: %s", f->path, text) >= 0) {
		text_line(stderr, line);
		free(line);
	}
	free(text);
}

void objtool_warn(const struct elf_file *f, struct place_names *names, uint32_t section, uint64_t at, const char *text)
{
	char where[256];

	objtool_place(f, names, section, at, where, sizeof(where));
	objtool_say(f, "%s: %s", where, text);
}

/* Makes the rows, from the code as the compiler wrote it. */
static int orc_pass(const struct elf_file *f, const struct linux_release *release, struct notes *notes,
                    struct new_section *out, size_t *count, struct error *e)
{
	const struct frames_options options = {.jobs = 1, .profile = &release->profile, .notes = notes};
	struct frames frames;
	long lost = frames_find(f, &options, &frames, e);

	big_trim(f->size);
	if (!lost)
		lost = orc_sections(f, release, &frames, out, count, e);
	if (lost > 0)
		objtool_say(f, "%ld rows do not fit an ORC entry", lost);
	frames_free(&frames);
	big_trim(f->size);
	return lost < 0 ? -1 : 0;
}

/* Writes FILE.orig, the object as it was before the passes. */
static int backup_write(const struct elf_file *f, struct error *e)
{
	char path[4096];

	if ((size_t)snprintf(path, sizeof(path), "%s.orig", f->path) >= sizeof(path))
		return error_set(e, "its path is too long for a backup");
	return outfile_write(path, f->bytes, f->size, f->path, e) ? -1 : 0;
}

static void stats_print(const struct branches *b, const struct new_section *s, size_t count)
{
	size_t i;

	printf("nr_insns: %zu\n", b->insns);
	for (i = 0; i < count; i++)
		printf("%s: %zu bytes\n", s[i].name, (size_t)s[i].size);
}

/* Is the file made of several, as ld -r makes one? Each leaves its name. */
static bool is_linked(const struct elf_file *f)
{
	size_t i, n = 0;

	for (i = 0; i < f->symbol_count && n < 2; i++)
		n += f->symbols[i].type == STT_FILE;
	return n > 1;
}

/* All passes over an open file, whose bytes may have changed in place then; sections[0..*count) are to be added. */
static int passes_run(struct elf_file *f, const struct objtool_options *o, struct branches *b,
                      struct new_section *sections, size_t *count, struct error *e)
{
	struct code_map map;
	struct notes notes;
	bool noted; /* they have been read */
	size_t warnings = 0;
	int err = 0;

	code_map_open(f, o->release, &map);
	step_caches_keep(true); /* up to the last pass that decodes all */
	if (o->uaccess)
		err = uaccess_open(&map, e);
	/* Branches first, so that warnings come in file order. */
	err = err || branch_sites_find(f, o, &map, b, e) ? -1 : 0;
	if (!err && (map.begins || o->stackval || o->ibt))
		err = code_map_read(&map, e);
	if (!err && map.begins)
		warnings = uaccess_check(&map);
	if (!err && o->stackval)
		err = stack_check(&map, o, warnings + b->warnings, e);
	if (!err && o->ibt)
		err = endbrs_find(&map, o, &b->sealed, e);
	if (!err)
		err = sites_sections(f, o, b, sections, count, e);
	step_caches_keep(false);
	noted = map.fields;
	notes = map.notes;
	map.notes = (struct notes){0};
	code_map_free(&map);
	if (!err && o->orc)
		err = orc_pass(f, o->release, noted ? &notes : NULL, sections, count, e);
	notes_free(&notes);
	if (err)
		return -1;
	/* Passes that change code come last. */
	if (o->dry_run)
		return 0;
	if (o->mcount && (o->mnop || o->release->nops_fentry) && traced_hack(f, b, e))
		return -1;
	return (o->jump_label && keys_hack(f, e)) || (o->noinstr_hack && noinstr_hack(f, b, e)) ? -1 : 0;
}

static int result_write(const struct elf_file *f, const struct objtool_options *o, const struct file_mark *seen,
                        const struct new_section *sections, size_t count, struct error *e)
{
	const struct object_change change = {.added = sections, .count = count};
	const struct outfile_target target = {.path = f->path, .seen = seen};
	uint8_t *bytes = NULL;
	size_t size = 0;
	int err;

	if (o->dry_run)
		return 0;
	if (object_write_room(f, count, e) || object_write(f, &change, &bytes, &size, e))
		return -1;
	err = outfile_replace(&target, bytes, size, e) ? -1 : 0;
	free(bytes);
	return err;
}

int objtool_run(const char *path, const struct objtool_options *o, struct error *e)
{
	struct new_section sections[SECTIONS_MOST] = {0};
	struct elf_file f = {0};
	struct file_mark seen;
	struct branches branches = {0};
	size_t count = 0, size, i;
	uint8_t *bytes;
	int err;

	if (file_read_marked(path, &bytes, &size, &seen, e))
		return -1;
	err = elf_open_bytes(&f, path, bytes, size, e);
	if (!err && !elf_is_object(&f))
		err = error_set(e, "is no object file");
	if (!err)
		err = linux_release_check(o->release, &f, e);
	if (!err && o->ibt && !o->linked && !is_linked(&f))
		err = error_set(e, "--ibt requires --link");
	if (!err && o->backup && !o->dry_run)
		err = backup_write(&f, e);
	if (!err)
		err = passes_run(&f, o, &branches, sections, &count, e);
	if (!err && (count || o->jump_label || o->noinstr_hack || o->mcount))
		err = result_write(&f, o, &seen, sections, count, e);
	if (!err && o->stats)
		stats_print(&branches, sections, count);
	branch_sites_free(&branches);
	for (i = 0; i < SECTIONS_MOST; i++) {
		free(sections[i].data);
		free(sections[i].relocs);
	}
	elf_close(&f);
	return err;
}
