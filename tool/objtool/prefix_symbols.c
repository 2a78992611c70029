/* SPDX-License-Identifier: MIT */
/* Finds the bytes that are reserved before functions, and makes symbols for them (prefix_symbols.h). */
#include "objtool/prefix_symbols.h"
#include "shared/search.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

#define PREFIX_NAME "__pfx_"
#define CHECK_SIZE  5u   /* mov $hash,%eax */
#define NAME_MOST   512u /* size of the longest name that objtool makes, with its terminating NUL */

/* Adds the symbol for the bytes before a function. */
static void prefix_add(struct prefixes *p, const struct code_map *m, const struct objtool_options *o,
                       const struct elf_symbol *y)
{
	if (strlen(y->name) + sizeof(PREFIX_NAME) > NAME_MOST) {
		objtool_say(m->f, "%s: symbol name too long, can't create __pfx_ symbol", y->name);
		return;
	}
	mem_reserve(&p->list, &p->capacity, p->count, sizeof(*p->list));
	p->list[p->count++] = (struct new_symbol){.prefix = PREFIX_NAME,
	                                          .name = y->name,
	                                          .section = y->section,
	                                          .value = y->value - o->prefix,
	                                          .size = o->prefix,
	                                          .info = ELF64_ST_INFO(y->bind, y->type)};
}

/*
 * True if an instruction begins at an offset in a section, when decoding starts at the last function before the offset.
 */
static bool insn_begins(const struct code_map *m, const struct code_section *c, uint64_t at)
{
	size_t k = symbol_index_above(&m->functions, c->section, at);
	uint64_t from = k && m->functions.list[k - 1]->section == c->section ? m->functions.list[k - 1]->value : 0;
	struct step s;

	for (; from < at; from += s.len)
		if (!step_decode(NULL, c->bytes + from, c->size - from, c->addr + from, &s))
			return false;
	return from == at;
}

/* True if an offset may lie inside a longer nop that begins before it. */
static bool is_spanned(const struct code_section *c, uint64_t at)
{
	uint64_t back;
	struct step s;

	for (back = 1; back < STEP_LEN_MOST && back <= at; back++)
		if (step_decode(NULL, c->bytes + at - back, c->size - at + back, c->addr + at - back, &s) && s.padding &&
		    s.len > back)
			return true;
	return false;
}

/* True if the reserved bytes before a function are nops, and a nop begins at the first of them. */
static bool has_nops(const struct code_map *m, const struct objtool_options *o, const struct elf_symbol *y)
{
	const struct code_section *c = space_of(&m->space, y->section);
	const struct elf_symbol *there;
	uint64_t at;
	struct step s;

	if (!c || y->value < o->prefix || y->value > c->size)
		return false;
	there = symbol_index_find(&m->functions, y->section, y->value - o->prefix);
	if (there && there->value == y->value - o->prefix)
		return false; /* the bytes belong to a function, or an earlier run has added the symbol */
	for (at = y->value - o->prefix; at < y->value; at += s.len)
		if (!step_decode(NULL, c->bytes + at, y->value - at, c->addr + at, &s) || !s.padding || s.flow != FLOW_NEXT)
			return false;
	return !is_spanned(c, y->value - o->prefix) || insn_begins(m, c, y->value - o->prefix);
}

/*
 * Returns the function before which an entry of __patchable_function_entries reserves bytes. If the function has
 * several names, returns the last one in the file; null if there is no function.
 */
static const struct elf_symbol *function_named(const struct code_map *m, uint32_t section, uint64_t at)
{
	const struct symbol_index *x = &m->functions;
	const struct elf_symbol *found = NULL;
	size_t k;

	for (k = symbol_index_above(x, section, at); k-- && x->list[k]->section == section && x->list[k]->value == at;)
		if (!found || x->list[k] > found)
			found = x->list[k];
	return found;
}

/*
 * Since 7.2: adds the functions before which the compiler has reserved bytes, by __patchable_function_entries. Returns
 * 0, or -1 and a message.
 */
static int entries_read(struct prefixes *p, const struct code_map *m, const struct objtool_options *o, uint32_t section,
                        struct error *e)
{
	uint32_t rel = elf_section_rela(m->f, section, 1);
	struct elf_reloc *r = NULL;
	long n = rel ? elf_relocs(m->f, rel, &r, e) : 0, i;

	for (i = 0; i < n; i++) {
		const struct elf_symbol *y = r[i].symbol < m->f->symbol_count ? &m->f->symbols[r[i].symbol] : NULL;
		uint64_t at = y ? y->value + (uint64_t)r[i].addend : 0;
		const struct code_section *c = y && y->section ? space_of(&m->space, y->section) : NULL;

		y = c && at < c->size ? function_named(m, y->section, at + o->prefix) : NULL;
		if (y)
			prefix_add(p, m, o, y);
	}
	free(r);
	return n < 0 ? -1 : 0;
}

static int prefix_order(const void *a, const void *b)
{
	const struct new_symbol *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	return x->value < y->value ? -1 : x->value > y->value;
}

int prefixes_find(const struct code_map *map, const struct objtool_options *o, struct prefixes *out, struct error *e)
{
	uint32_t section = 0;
	size_t i;
	int err = 0;

	memset(out, 0, sizeof(*out));
	for (i = 0; !o->release->prefixes_by_entries && i < map->functions.count; i++)
		if (has_nops(map, o, map->functions.list[i]))
			prefix_add(out, map, o, map->functions.list[i]);
	while (o->release->prefixes_by_entries && !err &&
	       (section = elf_section_find(map->f, "__patchable_function_entries", section + 1)))
		err = entries_read(out, map, o, section, e);
	if (out->count)
		qsort(out->list, out->count, sizeof(*out->list), prefix_order);
	return err;
}

int checks_grow(struct elf_file *f, const struct code_map *map, const struct objtool_options *o, struct error *e)
{
	uint32_t i, section = 0;
	bool alone = false;

	while (section + 1 < f->section_count && f->sections[section].sh.sh_type != SHT_SYMTAB)
		section++;
	for (i = 1; i < f->symbol_count; i++) {
		const struct elf_symbol *y = &f->symbols[i];
		uint64_t size = y->size + o->prefix;
		Elf64_Sym raw;

		if (!symbol_is_function(f, y) || strncmp(y->name, CHECK_PREFIX, strlen(CHECK_PREFIX)) != 0 ||
		    y->size != CHECK_SIZE || !function_named(map, y->section, y->value + size))
			continue;
		if (!alone && elf_section_alone(f, section, e))
			return -1;
		alone = true;
		memcpy(&raw, f->sections[section].data + i * sizeof(raw), sizeof(raw));
		raw.st_size = size;
		memcpy((uint8_t *)f->sections[section].data + i * sizeof(raw), &raw, sizeof(raw));
	}
	return 0;
}

void prefixes_free(struct prefixes *p)
{
	free(p->list);
	memset(p, 0, sizeof(*p));
}
