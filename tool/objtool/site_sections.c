/* SPDX-License-Identifier: MIT */
/* Makes the sections that list branches for the kernel to patch: .static_call_sites, .retpoline_sites, .return_sites,
 * .call_sites, .ibt_endbr_seal, .cfi_sites and __mcount_loc. */
#include "objtool/objtool.h"
#include "elf/symbols.h"
#include "support/memory.h"
#include "shared/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* struct static_call_site: an int32 address and an int32 key, both relative to themselves; bit 0 of the key marks a
 * tail call. */
enum { STATIC_CALL_SITE = 8, STATIC_CALL_KEY = 4, STATIC_CALL_TAIL = 1 };

static void section_begin(struct new_section *s, const char *name, uint64_t flags, size_t count, size_t size,
                          size_t relocs)
{
	*s = (struct new_section){.name = name,
	                          .flags = SHF_ALLOC | flags,
	                          .align = 1,
	                          .entry = size,
	                          .data = mem_zero(count, size),
	                          .size = count * size,
	                          .relocs = mem_zero(count, relocs * sizeof(*s->relocs))};
}

static void reloc_add(struct new_section *s, uint64_t at, enum new_reloc_to to, uint32_t index, int64_t addend)
{
	s->relocs[s->reloc_count++] =
		(struct new_reloc){.offset = at, .addend = addend, .type = R_X86_64_PC32, .index = index, .to = to};
}

/* Makes a section of 4-byte distances to the branches of a list. */
static void addresses_section(struct new_section *s, const char *name, const struct branch_list *l)
{
	size_t i;

	section_begin(s, name, 0, l->count, 4, 1);
	for (i = 0; i < l->count; i++)
		reloc_add(s, 4 * i, TO_SECTION, l->list[i].section, (int64_t)l->list[i].at);
}

/*
 * Makes a section of 8-byte addresses of the branches of a list. `aligned`: the section is aligned to 8 bytes, as it is
 * since 6.12 at the latest.
 */
static void words_section(struct new_section *s, const char *name, const struct branch_list *l, bool aligned)
{
	size_t i;

	section_begin(s, name, 0, l->count, 8, 1);
	s->align = aligned ? 8 : 1;
	for (i = 0; i < l->count; i++) {
		reloc_add(s, 8 * i, TO_SECTION, l->list[i].section, (int64_t)l->list[i].at);
		s->relocs[i].type = R_X86_64_64;
	}
}

/* Prefix of the symbols of static calls' keys. */
#define KEY_PREFIX "__SCK__"
struct keys {
	const struct elf_file *f;
	const struct elf_symbol **list; /* sorted by name; equal names in file order */
	size_t count;
};

static int key_order(const void *a, const void *b)
{
	const struct elf_symbol *x = *(const struct elf_symbol *const *)a, *y = *(const struct elf_symbol *const *)b;
	int names = strcmp(x->name, y->name);

	return names ? names : (x > y) - (x < y);
}

static void keys_read(const struct elf_file *f, struct keys *out)
{
	uint32_t i;

	*out = (struct keys){f, mem_alloc((size_t)f->symbol_count + 1, sizeof(*out->list)), 0};
	for (i = 1; i < f->symbol_count; i++)
		if (!strncmp(f->symbols[i].name, KEY_PREFIX, sizeof(KEY_PREFIX) - 1))
			out->list[out->count++] = &f->symbols[i];
	if (out->count)
		qsort(out->list, out->count, sizeof(*out->list), key_order);
}

static uint32_t key_find(const struct keys *keys, const char *name)
{
	size_t k = SEARCH(keys->count, i, strcmp(keys->list[i]->name, name) < 0);

	return k < keys->count && !strcmp(keys->list[k]->name, name) ? (uint32_t)(keys->list[k] - keys->f->symbols) : 0;
}

/*
 * Returns the symbol of a static call's key by that of its trampoline: __SCK__NAME for __SCT__NAME. A module that must
 * not change the call lacks the key; then the trampoline is returned, and the kernel finds the key
 * (kernel/static_call_inline.c).
 */
static uint32_t key_of(const struct keys *keys, const struct objtool_options *o, uint32_t trampoline, struct error *e)
{
	const char *name = keys->f->symbols[trampoline].name;
	size_t size = strlen(name) + 1;
	char *key = mem_alloc(size, 1);
	uint32_t symbol;

	memcpy(key, name, size);
	memcpy(key, KEY_PREFIX, sizeof(KEY_PREFIX) - 1);
	symbol = key_find(keys, key);
	if (!symbol && o->module)
		symbol = trampoline;
	if (!symbol)
		error_set(e, "static call of %.200s has no symbol %.200s", name, key);
	free(key);
	return symbol;
}

static int calls_section(const struct elf_file *f, const struct objtool_options *o, const struct branch_list *l,
                         struct new_section *s, struct error *e)
{
	struct keys keys;
	uint32_t key = 1;
	size_t i;

	section_begin(s, ".static_call_sites", SHF_WRITE, l->count, STATIC_CALL_SITE, 2);
	keys_read(f, &keys);
	for (i = 0; i < l->count && key; i++) {
		const struct branch_site *x = &l->list[i];

		if (!i || x->symbol != x[-1].symbol)
			key = key_of(&keys, o, x->symbol, e);
		reloc_add(s, STATIC_CALL_SITE * i, TO_SECTION, x->section, (int64_t)x->at);
		reloc_add(s, STATIC_CALL_SITE * i + STATIC_CALL_KEY, TO_SYMBOL, key, x->tail ? STATIC_CALL_TAIL : 0);
	}
	free(keys.list);
	return key ? 0 : -1;
}

/* For --cfi, lists the functions __cfi_* that clang puts before functions; before 7.2 in ascending order of address. */
static void checks_list(const struct elf_file *f, const struct objtool_options *o, struct branch_list *out)
{
	struct symbol_index x = {0};
	size_t i;

	symbol_index_build(f, symbol_is_function, &x);
	for (i = 0; i < (o->release->cfi_grows ? f->symbol_count : x.count); i++) {
		const struct elf_symbol *y = o->release->cfi_grows ? &f->symbols[i] : x.list[i];

		if (!symbol_is_function(f, y) || strncmp(y->name, CHECK_PREFIX, strlen(CHECK_PREFIX)) != 0)
			continue;
		mem_reserve(&out->list, &out->capacity, out->count, sizeof(*out->list));
		out->list[out->count++] = (struct branch_site){.section = y->section, .at = y->value};
	}
	symbol_index_free(&x);
}

/*
 * True if the section must be made: it is `asked` for, the list has elements, and no earlier run has made the section.
 */
static bool is_wanted(const struct elf_file *f, bool asked, const struct branch_list *l, const char *name)
{
	if (!asked || !l->count)
		return false;
	if (!elf_section_find(f, name, 1))
		return true;
	objtool_say(f, "file already has %s section, skipping", name);
	return false;
}

static void checks_section(const struct elf_file *f, const struct objtool_options *o, struct new_section *out,
                           size_t *count)
{
	struct branch_list list = {0};

	checks_list(f, o, &list);
	if (is_wanted(f, true, &list, ".cfi_sites"))
		addresses_section(&out[(*count)++], ".cfi_sites", &list);
	free(list.list);
}

int sites_sections(const struct elf_file *f, const struct objtool_options *o, const struct branches *b,
                   struct new_section *out, size_t *count, struct error *e)
{
	if (is_wanted(f, o->static_call, &b->calls, ".static_call_sites") &&
	    calls_section(f, o, &b->calls, &out[(*count)++], e))
		return -1;
	if (is_wanted(f, o->retpoline, &b->retpolines, ".retpoline_sites"))
		addresses_section(&out[(*count)++], ".retpoline_sites", &b->retpolines);
	if (o->release->cfi_grows ? o->fineibt : o->cfi)
		checks_section(f, o, out, count);
	if (is_wanted(f, o->rethunk, &b->returns, ".return_sites"))
		addresses_section(&out[(*count)++], ".return_sites", &b->returns);
	if (is_wanted(f, o->rethunk && o->skylake, &b->direct, ".call_sites"))
		addresses_section(&out[(*count)++], ".call_sites", &b->direct);
	if (is_wanted(f, o->ibt, &b->sealed, ".ibt_endbr_seal"))
		addresses_section(&out[(*count)++], ".ibt_endbr_seal", &b->sealed);
	if (is_wanted(f, o->mcount, &b->traced, "__mcount_loc"))
		words_section(&out[(*count)++], "__mcount_loc", &b->traced, o->release->typed_rows);
	return 0;
}
