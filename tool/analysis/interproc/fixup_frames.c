/* SPDX-License-Identifier: MIT */
/*
 * Once all rows are known, compares the frame of each instruction that an exception table lists (fixups) with the row
 * of the address where execution continues after a fault in that instruction.
 */
#include "analysis/interproc/work.h"
#include "analysis/interproc/other_frames.h"
#include "elf/symbols.h"
#include "support/memory.h"
#include "shared/search.h"

#include "arch/x86/rule_text.h"

#include <stdio.h>
#include <string.h>

static int target_order(const void *a, const void *b)
{
	const struct fixup *const *x = a, *const *y = b;

	if ((*x)->to != (*y)->to)
		return (*x)->to < (*y)->to ? -1 : 1;
	return (*x)->insn < (*y)->insn ? -1 : (*x)->insn > (*y)->insn;
}

/* Returns the rule at an address, or null if it is UNDEF. */
static const struct etch_rule *rule_at(const struct row_list *l, uint64_t addr)
{
	size_t lo = SEARCH(l->count, i, l->rows[i].addr <= addr);

	return lo && l->rows[lo - 1].rule.kind != ETCH_RULE_UNDEF ? &l->rows[lo - 1].rule : NULL;
}

/* Adds an ETCH-X008 finding. `there` is the rule of the faulting instruction, `here` the rule of the fixup address.
 * `names` is built for the first finding. */
static void frames_differ(struct work *w, struct symbol_index *names, const struct fixup *x,
                          const struct etch_rule *there, const struct etch_rule *here)
{
	const struct code_section *c = space_at(&w->out->space, x->insn);
	char from[72], a[32], b[32];

	if (!names->list)
		symbol_index_build(w->file, symbol_is_place, names);
	symbol_index_describe(names, w->file, c->section, elf_is_object(w->file) ? x->insn - c->addr : x->insn, from,
	                      sizeof(from));
	rule_cfa_text(there, a, sizeof(a));
	rule_cfa_text(here, b, sizeof(b));
	finding_add(&w->out->findings, "ETCH-X008", 0, x->to,
	            "where %s goes on when it faults, its frame has CFA %s; here it is %s", from, a, b);
}

void fixups_compare(struct work *w)
{
	const struct fixup **list = mem_alloc(w->fixups.count, sizeof(*list));
	const struct etch_rule *here = NULL;
	struct symbol_index names = {0};
	size_t n = 0, i;
	bool reported = false;

	for (i = 0; i < w->fixups.count; i++)
		if (fixup_counts(&w->fixups, &w->fixups.list[i]) && !w->fixups.tables[w->fixups.list[i].table].other_format)
			list[n++] = &w->fixups.list[i];
	if (n)
		qsort(list, n, sizeof(*list), target_order);
	for (i = 0; i < n; i++) {
		const struct etch_ex raw = {.data = list[i]->data};
		const struct etch_rule *there = rule_at(&w->out->rows, list[i]->insn);

		if (!i || list[i - 1]->to != list[i]->to) {
			here = rule_at(&w->out->rows, list[i]->to);
			reported = false;
		}
		/* UNDEF, perhaps because the frames differ: compare the other instructions with the first one. */
		if (!here)
			here = there;
		/* Only CFAs from the same register are compared, and only if the fixup does not write that register. */
		if (reported || !here || !there || here->kind != ETCH_RULE_CALL || there->kind != ETCH_RULE_CALL ||
		    here->cfa != there->cfa || here->cfa_off == there->cfa_off ||
		    (etch_ex_type(&raw) && here->cfa == etch_ex_reg(&raw)))
			continue;
		reported = true;
		frames_differ(w, &names, list[i], there, here);
	}
	symbol_index_free(&names);
	free(list);
}
