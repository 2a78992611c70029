/* SPDX-License-Identifier: MIT */
/* The sections that list branches for the kernel to patch: .static_call_sites, .retpoline_sites, .return_sites. */
#include "objtool/objtool.h"
#include "support/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* struct static_call_site: int32 address, int32 key, both relative to themselves; bit 0 of the key: a tail call. */
enum { STATIC_CALL_SITE = 8, STATIC_CALL_KEY = 4, STATIC_CALL_TAIL = 1 };

static void section_begin(struct new_section *s, const char *name, uint64_t flags, size_t count, size_t size,
                          size_t relocs)
{
	*s = (struct new_section){.name = name,
	                          .flags = SHF_ALLOC | flags,
	                          .align = 1,
	                          .data = mem_zero(count, size),
	                          .size = count * size,
	                          .relocs = mem_zero(count, relocs * sizeof(*s->relocs))};
}

static void reloc_add(struct new_section *s, uint64_t at, enum new_reloc_to to, uint32_t index, int64_t addend)
{
	s->relocs[s->reloc_count++] =
		(struct new_reloc){.offset = at, .addend = addend, .type = R_X86_64_PC32, .index = index, .to = to};
}

/* Addresses of 4 bytes each. */
static void addresses_section(struct new_section *s, const char *name, const struct branch_list *l)
{
	size_t i;

	section_begin(s, name, 0, l->count, 4, 1);
	for (i = 0; i < l->count; i++)
		reloc_add(s, 4 * i, TO_SECTION, l->list[i].section, (int64_t)l->list[i].at);
}

static uint32_t symbol_find(const struct elf_file *f, const char *name)
{
	uint32_t i;

	for (i = 1; i < f->symbol_count; i++)
		if (!strcmp(f->symbols[i].name, name))
			return i;
	return 0;
}

/* The key of a trampoline: __SCK__NAME of __SCT__NAME. A module that may not change the call has no key: the trampoline
 * stands for it, and the kernel looks the key up (kernel/static_call_inline.c). */
static uint32_t key_of(const struct elf_file *f, const struct objtool_options *o, uint32_t trampoline, struct error *e)
{
	const char *name = f->symbols[trampoline].name;
	size_t size = strlen(name) + 1;
	char *key = mem_alloc(size, 1);
	uint32_t symbol;

	memcpy(key, name, size);
	memcpy(key, "__SCK__", 7);
	symbol = symbol_find(f, key);
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
	size_t i;

	section_begin(s, ".static_call_sites", SHF_WRITE, l->count, STATIC_CALL_SITE, 2);
	for (i = 0; i < l->count; i++) {
		const struct branch_site *x = &l->list[i];
		uint32_t key = i && x->symbol == x[-1].symbol ? s->relocs[2 * i - 1].index : key_of(f, o, x->symbol, e);

		if (!key)
			return -1;
		reloc_add(s, STATIC_CALL_SITE * i, TO_SECTION, x->section, (int64_t)x->at);
		reloc_add(s, STATIC_CALL_SITE * i + STATIC_CALL_KEY, TO_SYMBOL, key, x->tail ? STATIC_CALL_TAIL : 0);
	}
	return 0;
}

/* Is a section to be made? Not where the file has one: then another run has made it. */
static bool is_wanted(const struct elf_file *f, bool asked, const struct branch_list *l, const char *name)
{
	if (!asked || !l->count)
		return false;
	if (!elf_section_find(f, name, 1))
		return true;
	fprintf(stderr, "%s: warning: objtool: file already has %s section, skipping\n", f->path, name);
	return false;
}

int sites_sections(const struct elf_file *f, const struct objtool_options *o, const struct branches *b,
                   struct new_section *out, size_t *count, struct error *e)
{
	if (is_wanted(f, o->static_call, &b->calls, ".static_call_sites") &&
	    calls_section(f, o, &b->calls, &out[(*count)++], e))
		return -1;
	if (is_wanted(f, o->retpoline, &b->retpolines, ".retpoline_sites"))
		addresses_section(&out[(*count)++], ".retpoline_sites", &b->retpolines);
	if (is_wanted(f, o->rethunk, &b->returns, ".return_sites"))
		addresses_section(&out[(*count)++], ".return_sites", &b->returns);
	return 0;
}
