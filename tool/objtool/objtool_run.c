/* SPDX-License-Identifier: MIT */
/* Runs the steps of `etch objtool` for one file. */
#include "objtool/objtool.h"
#include "arch/x86/fast_decoder.h"
#include "output/outfile.h"
#include "objtool/code_map.h"
#include "objtool/prefix_symbols.h"
#include "report/text.h"
#include "support/bounds.h"
#include "support/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTIONS_MOST (SITE_SECTIONS + 2u)

/* The results of the passes over an object. */
struct results {
	struct branches branches;
	struct prefixes prefixes;
	struct new_section sections[SECTIONS_MOST];
	size_t count; /* number of sections that the passes have made */
};

/*
 * Prints a remark about rules that are lost. This is a limitation of etch, about which objtool prints nothing, so
 * --werror does not count it as a warning.
 */
static void rows_lost_say(const struct elf_file *f, long lost)
{
	char text[64];

	snprintf(text, sizeof(text), "%ld rows do not fit an ORC entry", lost);
	objtool_remark(f, text);
}

/* Makes the sections with unwind rows, from the code as the compiler wrote it. */
static int orc_pass(const struct elf_file *f, const struct linux_release *release, struct notes *notes,
                    struct results *out, struct error *e)
{
	const struct frames_options options = {.jobs = 1, .profile = &release->profile, .notes = notes};
	struct frames frames;
	long lost = frames_find(f, &options, &frames, e);

	big_trim(f->size);
	if (!lost)
		lost = orc_sections(f, release, &out->prefixes, &frames, out->sections, &out->count, e);
	if (lost > 0)
		rows_lost_say(f, lost);
	frames_free(&frames);
	big_trim(f->size);
	return lost < 0 ? -1 : 0;
}

/* Writes FILE.orig, the object as it was before the passes. */
static int backup_write(const char *object, const char *path_of, const uint8_t *bytes, size_t size, struct error *e)
{
	char path[4096];

	if ((size_t)snprintf(path, sizeof(path), "%s.orig", path_of) >= sizeof(path))
		return error_set(e, "its path is too long for a backup");
	return outfile_write(path, bytes, size, object, e) ? -1 : 0;
}

static void stats_print(const struct branches *b, const struct new_section *s, size_t count)
{
	size_t i;

	printf("nr_insns: %zu\n", b->insns);
	for (i = 0; i < count; i++)
		printf("%s: %zu bytes\n", s[i].name, (size_t)s[i].size);
}

/*
 * True if the object has been linked from several, as by ld -r. Each of these has left the name of its source in the
 * file.
 */
static bool is_linked(const struct elf_file *f)
{
	size_t i, n = 0;

	for (i = 0; i < f->symbol_count && n < 2; i++)
		n += f->symbols[i].type == STT_FILE;
	return n > 1;
}

/*
 * Checks that --link is given for a linked object, and for the passes that require one. Up to 6.12, an object that is
 * recognizably linked needs no --link: *forced is set.
 */
static int link_check(const struct elf_file *f, const struct objtool_options *o, bool *forced, struct error *e)
{
	const char *needs = o->unret ? "--unret" : NULL;
	bool linked = is_linked(f);

	*forced = false;
	needs = o->ibt ? "--ibt" : needs;
	needs = o->noinstr ? "--noinstr" : needs;
	if (o->linked)
		return 0;
	if (linked && !o->release->links_by_option) {
		objtool_complain(f, "Linked object detected, forcing --link");
		*forced = true;
		return 0;
	}
	if (needs)
		return error_set(e, "%s requires --link", needs);
	return linked ? error_set(e, "a linked object requires --link") : 0;
}

/* For --noabs: checks that code which runs before it is at its final address contains no addresses. */
static int absolutes_check(const struct elf_file *f, struct error *e)
{
	uint32_t i, rel;

	for (i = 1; i < f->section_count; i++) {
		struct elf_reloc *r;
		long n, k;

		if (!(f->sections[i].sh.sh_flags & SHF_ALLOC) || !strcmp(f->sections[i].name, "__patchable_function_entries") ||
		    !(rel = elf_section_rela(f, i, 1)))
			continue;
		n = elf_relocs(f, rel, &r, e);
		if (n < 0)
			return -1;
		for (k = 0; k < n; k++)
			if (r[k].type == R_X86_64_64 || r[k].type == R_X86_64_32 || r[k].type == R_X86_64_32S)
				objtool_say(f, "section %s has absolute relocation at offset 0x%llx", f->sections[i].name,
				            (unsigned long long)r[k].offset);
		free(r);
	}
	return 0;
}

/* Runs the passes that change code, which come last. */
static int code_change(struct elf_file *f, const struct objtool_options *o, const struct results *r, struct error *e)
{
	if (o->dry_run || (o->errors && warnings_count()))
		return 0;
	if (o->mcount && (o->mnop || o->release->nops_fentry) && traced_hack(f, &r->branches, e))
		return -1;
	return (o->jump_label && keys_hack(f, e)) || (o->noinstr_hack && noinstr_hack(f, &r->branches, e)) ? -1 : 0;
}

static bool follows_stack(const struct objtool_options *o) { return stack_follows_all(o) || o->noinstr || o->unret; }

/* Runs the passes that check code: lists the branches, and prints the warnings. */
static int code_check(const struct elf_file *f, const struct objtool_options *o, struct code_map *map,
                      struct branches *b, struct error *e)
{
	bool access = o->uaccess && uaccess_has_work(map);
	size_t warnings = 0;

	if ((access || follows_stack(o) || o->ibt) && code_map_starts(map, e))
		return -1;
	/* The pass over branches comes first, so that its warnings are in file order. */
	if (branch_sites_find(f, o, map, b, e))
		return -1;
	map->decoded = map->begins && !b->undecodable;
	if (map->begins && code_map_read(map, e))
		return -1;
	if (access)
		warnings = uaccess_check(map, o);
	if (!o->release->reach_counts_alone)
		warnings += b->warnings;
	if (follows_stack(o) && stack_check(map, o, warnings, e))
		return -1;
	if (o->ibt && endbrs_find(map, o, &b->sealed, e))
		return -1;
	if (o->sls)
		unstopped_warn(map, b);
	return 0;
}

/* Runs --prefix, which handles the bytes before functions. */
static int prefix_pass(struct elf_file *f, const struct objtool_options *o, const struct code_map *map,
                       struct results *r, struct error *e)
{
	if (o->cfi && o->release->cfi_grows)
		return checks_grow(f, map, o, e);
	return prefixes_find(map, o, &r->prefixes, e);
}

/* Prints for --verbose what is said after the warnings. */
static void warned_print(const struct code_map *map, const struct objtool_options *o)
{
	if (o->errors && warnings_count())
		objtool_say(map->f, "%zu warning(s) upgraded to errors", warnings_count());
	warned_functions_print(map);
}

/* Runs all passes over an open file, whose bytes they may change in place. */
static int passes_run(struct elf_file *f, const struct objtool_options *o, struct results *r, struct error *e)
{
	struct code_map map;
	struct notes notes;
	bool noted; /* the notes have been read */
	int err;

	code_map_open(f, o->release, &map);
	step_caches_keep(true); /* kept until the last pass that decodes all code */
	err = code_check(f, o, &map, &r->branches, e);
	if (!err && o->prefix)
		err = prefix_pass(f, o, &map, r, e);
	if (!err)
		err = sites_sections(f, o, &r->branches, r->sections, &r->count, e);
	if (!err && o->noabs)
		err = absolutes_check(f, e);
	if (o->verbose && !err)
		warned_print(&map, o);
	step_caches_keep(false);
	noted = map.fields;
	notes = map.notes;
	map.notes = (struct notes){0};
	code_map_free(&map);
	if (!err && o->orc)
		err = orc_pass(f, o->release, noted ? &notes : NULL, r, e);
	notes_free(&notes);
	return err ? -1 : code_change(f, o, r, e);
}

static int result_write(const struct elf_file *f, const struct objtool_options *o, const struct file_mark *seen,
                        const struct results *r, struct error *e)
{
	const struct object_change change = {
		.added = r->sections, .count = r->count, .symbols = r->prefixes.list, .symbol_count = r->prefixes.count};
	const struct outfile_target target = {.path = f->path, .seen = seen};
	uint8_t *bytes = NULL;
	size_t size = 0;
	int err;

	if (object_write_capacity(f, r->count, e) || object_write(f, &change, &bytes, &size, e))
		return -1;
	if (o->output)
		err = outfile_write(o->output, bytes, size, f->path, e) ? -1 : 0;
	else
		err = outfile_replace(&target, bytes, size, e) ? -1 : 0;
	free(bytes);
	return err;
}

/* True if the passes may have changed anything. */
static bool is_changed(const struct objtool_options *o, const struct results *r)
{
	return r->count || r->prefixes.count || o->jump_label || o->noinstr_hack || o->mcount || o->cfi || o->output;
}

static void results_free(struct results *r)
{
	size_t i;

	branch_sites_free(&r->branches);
	prefixes_free(&r->prefixes);
	for (i = 0; i < SECTIONS_MOST; i++) {
		free(r->sections[i].data);
		free(r->sections[i].relocs);
	}
}

/* Runs the passes over an object whose bytes are f->bytes. */
static int object_run(struct elf_file *f, const struct objtool_options *asked, const struct file_mark *seen,
                      struct error *e)
{
	struct objtool_options options = *asked, *o = &options;
	struct results r = {0};
	bool forced = false;
	int err = elf_is_object(f) ? linux_release_check(o->release, f, e) : error_set(e, "is no object file");

	if (!err)
		err = link_check(f, o, &forced, e);
	options.linked |= forced;
	if (!err && o->backup && !o->dry_run && !o->release->backs_up_failures)
		err = backup_write(f->path, f->path, f->bytes, f->size, e);
	if (!err)
		err = passes_run(f, o, &r, e);
	if (!err && !o->dry_run && !(o->errors && warnings_count()) && is_changed(o, &r))
		err = result_write(f, o, seen, &r, e);
	if (!err && o->stats)
		stats_print(&r.branches, r.sections, r.count);
	results_free(&r);
	return err;
}

int objtool_run(const char *path, const struct objtool_options *o, struct error *e)
{
	bool backs_up = o->backup && !o->dry_run && o->release->backs_up_failures;
	struct elf_file f = {0};
	struct error ignored;
	struct file_mark seen;
	uint8_t *bytes, *before = NULL;
	size_t size;
	int err, warned;

	if (file_read_marked(path, &bytes, &size, &seen, e))
		return -1;
	if (backs_up) {
		before = mem_alloc(size + 1, 1);
		memcpy(before, bytes, size);
	}
	warnings_begin(o);
	err = elf_open_bytes(&f, path, bytes, size, e);
	if (!err)
		err = object_run(&f, o, &seen, e);
	if (backs_up && (err || warnings_count()) &&
	    backup_write(path, o->output ? o->output : path, before, size, err ? &ignored : e))
		err = -1;
	free(before);
	elf_close(&f);
	warned = warnings_count() > 0;
	warnings_end();
	return err ? -1 : warned;
}
