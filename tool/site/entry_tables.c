/* SPDX-License-Identifier: MIT */
/* Finds the jump tables that belong to one function, by the operands that refer to their starts. */
#include "site/entries_internal.h"
#include "shared/search.h"
#include "support/memory.h"

#include <stdlib.h>

void base_ref_add(struct builder *b, const struct func *fn, const struct insn *in, uint32_t section, uint64_t addr)
{
	struct entry base = {section, addr, false, false};

	mem_reserve(&b->refs, &b->ref_capacity, b->ref_count, sizeof(*b->refs));
	b->refs[b->ref_count++] = (struct base_ref){base, fn, in->addr, in->move == MOVE_ADDRESS};
	entry_append(&b->bases.list, &b->bases.count, &b->bases.capacity, &base);
}

static int ref_order(const void *a, const void *b)
{
	const struct base_ref *x = a, *y = b;

	return entry_order(&x->base, &y->base);
}

void base_refs_sort(struct builder *b)
{
	if (b->ref_count)
		qsort(b->refs, b->ref_count, sizeof(*b->refs), ref_order);
}

/* Returns the index of the first reference to a base. */
static size_t refs_from(const struct builder *b, const struct entry *base)
{
	return SEARCH(b->ref_count, i, entry_order(&b->refs[i].base, base) < 0);
}

const struct func *base_owner(const struct builder *b, const struct entry *base)
{
	size_t i, first = refs_from(b, base);

	for (i = first; i < b->ref_count && !entry_order(&b->refs[i].base, base); i++)
		if (!b->refs[i].lea || b->refs[i].fn != b->refs[first].fn)
			return NULL;
	return i > first ? b->refs[first].fn : NULL;
}

bool target_is_inside(const struct func *fn, uint32_t section, uint64_t to)
{
	return section == fn->section && to > fn->start && to < fn->end;
}

void base_leas_add(struct builder *b, const struct entry *base)
{
	struct entries *x = b->out;
	size_t i;

	for (i = refs_from(b, base); i < b->ref_count && !entry_order(&b->refs[i].base, base); i++) {
		struct entry lea = {b->refs[i].fn->section, b->refs[i].insn, false, false};

		entry_append(&x->lea_list, &x->lea_count, &x->lea_capacity, &lea);
	}
}
