/* SPDX-License-Identifier: MIT */
/*
 * Finds the jump tables of object files. The flow analysis has found the indirect jumps, but the address and the
 * entries of a table are still relocations. These are resolved here.
 */
#include "inspect/view_code.h"

#include "support/memory.h"
#include "shared/search.h"

#include <stdlib.h>

/*
 * Returns the address at which an instruction could be known as the one with the table's address: for a lea its end,
 * for the jump itself its start.
 */
static uint64_t line_place(const struct code *c, const struct detail_jump *j, const struct code_line *l)
{
	return c->base + l->addr + (j->table ? l->len : 0);
}

/*
 * Returns the instruction with the relocation of the table's address, which is the jump itself or a lea. The flow
 * analysis does not apply relocations of data operands, so what it has as the address of the table is the end of the
 * lea.
 */
static const struct code_line *origin(const struct code *c, const struct detail_jump *j)
{
	uint64_t at = j->table ? j->table : j->addr;
	/* The lines are contiguous, so their ends are sorted as well as their starts. */
	uint32_t n = SEARCH(c->line_count, i, line_place(c, j, &c->lines[i]) < at);
	const struct code_line *l = n < c->line_count ? &c->lines[n] : NULL;

	return l && line_place(c, j, l) == at ? l : NULL;
}

/* The relocations of one section, kept for the next table, since most tables are in the same section. */
struct table_relocs {
	uint32_t section;
	struct elf_reloc *list;
	size_t count;
};

static void relocs_of(struct code *c, uint32_t section, struct table_relocs *r)
{
	uint32_t rela;
	struct error e;
	long n = -1;

	if (r->section == section)
		return;
	free(r->list);
	*r = (struct table_relocs){.section = section};
	rela = elf_section_rela(&c->file, section, 1);
	if (rela)
		n = elf_relocs(&c->file, rela, &r->list, &e);
	r->count = n < 0 ? 0 : (size_t)n;
	r->list = n < 0 ? NULL : r->list;
}

static int reloc_order(const void *a, const void *b)
{
	const uint64_t *at = a;
	const struct elf_reloc *r = b;

	return *at < r->offset ? -1 : *at > r->offset;
}

/* Finds the target of entry i, as an offset in the section of the function. Returns false if the target is unknown. */
static bool entry_target(const struct code *c, const struct detail_jump *j, const struct table_relocs *relocs,
                         uint64_t table, unsigned i, uint64_t *target)
{
	uint64_t at = table + (uint64_t)i * j->bytes;
	const struct elf_reloc *r =
		relocs->count ? bsearch(&at, relocs->list, relocs->count, sizeof(*r), reloc_order) : NULL;
	const struct elf_symbol *y;

	if (!r || r->symbol >= c->file.symbol_count || r->type != (j->bytes == 4 ? R_X86_64_PC32 : R_X86_64_64))
		return false;
	y = &c->file.symbols[r->symbol];
	/*
	 * A PC-relative relocation is relative to the entry, while the jump adds the value of the entry to the address of
	 * the table.
	 */
	*target = y->value + (uint64_t)r->addend - (j->bytes == 4 ? (uint64_t)i * 4 : 0);
	return y->section == c->place.section;
}

/* Adds the targets of all entries of a table. */
static void targets_find(struct code *c, struct detail_jump *j, const struct table_relocs *r, uint64_t table)
{
	struct detail *d = &c->detail;
	size_t before = d->target_count;
	unsigned i;

	j->listed = before + j->most <= detail_targets_most(d);
	if (!j->listed)
		return;
	for (i = 0; i < j->most; i++) {
		uint64_t target;

		if (!entry_target(c, j, r, table, i, &target))
			break;
		mem_reserve(&d->targets, &d->target_capacity, d->target_count, sizeof(*d->targets));
		d->targets[d->target_count++] = (struct detail_target){j->addr, c->base + target, i};
	}
	j->followed = j->most && i == j->most;
	if (!j->followed)
		d->target_count = before;
}

void object_jump_tables_find(struct code *c)
{
	struct table_relocs relocs = {0};
	size_t i;

	for (i = 0; i < c->detail.jump_count; i++) {
		struct detail_jump *j = &c->detail.jumps[i];
		const struct code_line *l = origin(c, j);
		struct reference table = {0};

		if (l && l->good)
			operand_memory(c->operands, c->place.section, &l->in, &table);
		j->table = table.placed ? table.addr : 0;
		j->section = table.placed ? table.section : 0;
		if (table.placed && (j->bytes == 4 || j->bytes == 8)) {
			relocs_of(c, table.section, &relocs);
			if (relocs.list)
				targets_find(c, j, &relocs, table.addr);
		}
	}
	free(relocs.list);
	detail_targets_sort(&c->detail);
}
