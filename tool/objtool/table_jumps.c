/* SPDX-License-Identifier: MIT */
/*
 * Finds the table of an indirect jump. It is the last table to which code of the function refers before the jump.
 * Kernels with retpolines have such jumps only in interpreters.
 */
#include "objtool/table_jumps.h"
#include "support/memory.h"
#include "shared/search.h"

#include <string.h>

#define ADDRESS_BYTES  8u
#define DISTANCE_BYTES 4u
#define READS_PER_BYTE 64u /* table entries that may be read, per byte of code: many jumps may share a table */

void table_jumps_open(const struct code_map *map, struct table_jumps *out)
{
	size_t i, n = map->functions.count;

	*out = (struct table_jumps){.map = map, .work = READS_PER_BYTE * (map->space.span + 1)};
	out->data = mem_zero(map->f->section_count + 1, sizeof(*out->data));
	out->first = mem_alloc(n + 1, sizeof(*out->first));
	out->count = mem_zero(n + 1, sizeof(*out->count));
	for (i = 0; i < n; i++)
		out->first[i] = SIZE_MAX;
}

void table_jumps_free(struct table_jumps *t)
{
	uint32_t i;

	for (i = 0; i < t->map->f->section_count; i++)
		free(t->data[i].list);
	free(t->data);
	free(t->first);
	free(t->count);
	free(t->list);
}

/* Returns the relocation of data at an offset of a section, or null. */
static const struct elf_reloc *data_reloc(struct table_jumps *t, uint32_t section, uint64_t off)
{
	struct data_relocs *d = &t->data[section];
	struct error e;
	size_t k;

	if (!d->read) {
		uint32_t rel = elf_section_rela(t->map->f, section, 1);
		long n = rel ? elf_relocs(t->map->f, rel, &d->list, &e) : 0;

		d->read = true;
		d->count = n > 0 ? (size_t)n : 0;
	}
	k = SEARCH(d->count, i, d->list[i].offset < off);
	return k < d->count && d->list[k].offset == off ? &d->list[k] : NULL;
}

uint64_t table_jump_target(struct table_jumps *t, const struct table_jump *j, size_t k)
{
	const struct code_map *m = t->map;
	uint64_t into = k * (j->distances ? DISTANCE_BYTES : ADDRESS_BYTES);
	const struct elf_reloc *r = t->work ? data_reloc(t, j->section, j->off + into) : NULL;
	const struct elf_symbol *y = r && r->symbol < m->f->symbol_count ? &m->f->symbols[r->symbol] : NULL;
	const struct code_section *c = y && y->section ? space_of(&m->space, y->section) : NULL;
	/* The entry is the distance from the table's start, but the relocation is relative to the entry. */
	uint64_t base = j->distances ? into : 0, off = y ? y->value + (uint64_t)r->addend - base : 0;

	if (!c || off > c->size || j->distances != (r->type == R_X86_64_PC32))
		return 0;
	t->work--;
	return c->addr + off;
}

static bool may_hold_tables(const struct elf_section *s)
{
	return (!strncmp(s->name, ".rodata", 7) && !strstr(s->name, ".str1.")) || !strncmp(s->name, ".data.rel.ro", 12);
}

/*
 * Finds the table to which an instruction refers. The data there is a table if its first entry leads into a function;
 * named data is never a table, except in the section for tables of labels. Returns false if there is no table.
 */
static bool table_of(struct table_jumps *t, const struct elf_reloc *r, struct table_jump *out)
{
	const struct code_map *m = t->map;
	const struct elf_symbol *y = r->symbol < m->f->symbol_count ? &m->f->symbols[r->symbol] : NULL;
	const struct elf_section *s = y && y->section < m->f->section_count ? &m->f->sections[y->section] : NULL;
	const struct elf_symbol *named;
	const struct elf_reloc *first;
	uint64_t to;
	size_t k;

	if (!s || y->type != STT_SECTION || !may_hold_tables(s))
		return false;
	out->section = y->section;
	out->off = (uint64_t)r->addend + (r->type == R_X86_64_PC32 ? 4 : 0);
	named = symbol_index_find(&m->labels, out->section, out->off);
	if (named && named->size && !strstr(s->name, "c_jump_table"))
		return false;
	first = data_reloc(t, out->section, out->off);
	out->distances = first && first->type == R_X86_64_PC32;
	to = table_jump_target(t, out, 0);
	return to && (function_at(m, to, &k) || function_at(m, to - 1, &k)); /* the first entry may be a dangling one */
}

/* Lists those indirect jumps of a function that have a table. */
static void function_read(struct table_jumps *t, const struct part *p, const struct elf_symbol *y, size_t number)
{
	const struct code_map *m = t->map;
	uint64_t end = y->size < p->code->size - y->value ? y->value + y->size : p->code->size, off;
	struct table_jump last = {0};
	size_t k = SEARCH(p->count, n, p->relocs[n].offset < y->value);
	struct step s;

	t->first[number] = t->list_count;
	for (off = y->value; off < end; off += s.len) {
		bool jumps;

		if (!step_decode(m->cache, p->code->bytes + off, end - off, p->code->addr + off, &s))
			break;
		jumps = s.flow == FLOW_JUMP_IND;
		for (; k < p->count && p->relocs[k].offset < off + s.len; k++) {
			struct table_jump found;
			uint32_t symbol = p->relocs[k].symbol;

			jumps |= s.flow == FLOW_JUMP && symbol < m->f->symbol_count &&
			         !strncmp(m->f->symbols[symbol].name, "__x86_indirect_", 15);
			if (table_of(t, &p->relocs[k], &found))
				last = found;
		}
		if (jumps && last.section) {
			last.at = p->code->addr + off;
			mem_reserve(&t->list, &t->capacity, t->list_count, sizeof(*t->list));
			t->list[t->list_count++] = last;
			t->count[number]++;
		}
		if (jumps)
			last.section = 0;
	}
}

const struct table_jump *table_jump_at(struct table_jumps *t, uint64_t at)
{
	const struct part *p = part_at(t->map, at);
	const struct table_jump *list;
	size_t number, k;
	const struct elf_symbol *y = function_at(t->map, at, &number);

	if (!p || !y)
		return NULL;
	if (t->first[number] == SIZE_MAX)
		function_read(t, p, y, number);
	list = t->list + t->first[number];
	k = SEARCH(t->count[number], i, list[i].at < at);
	return k < t->count[number] && list[k].at == at ? &list[k] : NULL;
}
