/* SPDX-License-Identifier: MIT */
/* Jump tables of an object file: the flow analysis sees that there is one, but both its
 * address and its entries are relocations yet. */
#include "inspect/code.h"

#include "code/vector.h"

#include <stdlib.h>

/* The instruction that the table's address is from: the jump itself, or the lea that the
 * analysis, which asks no relocations of data, takes for the address behind it. */
static const struct code_line *origin(const struct code *c, const struct detail_jump *j)
{
	uint32_t i;

	for (i = 0; i < c->line_count; i++) {
		const struct code_line *l = &c->lines[i];

		if (c->base + l->addr == (j->table ? j->table - l->len : j->addr))
			return l;
	}
	return NULL;
}

static int reloc_order(const void *a, const void *b)
{
	const uint64_t *at = a;
	const struct elf_reloc *r = b;

	return *at < r->offset ? -1 : *at > r->offset;
}

/* Where entry i leads: an offset in the function's section. False: not known. */
static bool entry_target(const struct code *c, const struct detail_jump *j, const struct elf_reloc *relocs, size_t count,
                         uint64_t table, unsigned i, uint64_t *target)
{
	uint64_t at = table + (uint64_t)i * j->bytes;
	const struct elf_reloc *r = count ? bsearch(&at, relocs, count, sizeof(*relocs), reloc_order) : NULL;
	const struct elf_symbol *y;

	if (!r || r->symbol >= c->file.symbol_count || r->type != (j->bytes == 4 ? R_X86_64_PC32 : R_X86_64_64))
		return false;
	y = &c->file.symbols[r->symbol];
	/* A distance counts from its own place, and is added to the table's. */
	*target = y->value + (uint64_t)r->addend - (j->bytes == 4 ? (uint64_t)i * 4 : 0);
	return y->section == c->place.section;
}

/* False: out of memory. */
static bool targets_find(struct code *c, struct detail_jump *j, const struct reference *table)
{
	uint32_t section = elf_section_rela(&c->file, table->section, 1);
	struct detail *d = &c->detail;
	size_t before = d->target_count;
	struct elf_reloc *relocs;
	struct error e;
	long n = section ? elf_relocs(&c->file, section, &relocs, &e) : -1;
	unsigned i;
	bool ok = true;

	if (n < 0)
		return true;
	for (i = 0; i < j->most && ok; i++) {
		uint64_t target;

		if (!entry_target(c, j, relocs, (size_t)n, table->addr, i, &target))
			break;
		ok = room_make(&d->targets, &d->target_room, d->target_count, sizeof(*d->targets));
		if (ok)
			d->targets[d->target_count++] = (struct detail_target){j->addr, c->base + target, i};
	}
	j->followed = j->most && i == j->most;
	if (!j->followed)
		d->target_count = before;
	free(relocs);
	return ok;
}

bool switches_find(struct code *c)
{
	size_t i;

	for (i = 0; i < c->detail.jump_count; i++) {
		struct detail_jump *j = &c->detail.jumps[i];
		const struct code_line *l = origin(c, j);
		struct reference table = {0};

		if (l && l->good)
			operand_memory(c->operands, c->place.section, &l->in, &table);
		j->table = table.placed ? table.addr : 0;
		j->section = table.placed ? table.section : 0;
		if (table.placed && (j->bytes == 4 || j->bytes == 8) && !targets_find(c, j, &table))
			return false;
	}
	return true;
}
