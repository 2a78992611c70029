/* SPDX-License-Identifier: MIT */
/*
 * Functions in the gaps between code ranges of a linked file: called through pointers that code computes, or from other
 * such functions, as in builtins of a virtual machine and in stripped programs that are not position-independent. Where
 * .eh_frame and symbols say nothing, each prologue is tried as a function's start. Like any start of which only the
 * address is known, it is judged once more by its exits and edges (may_be_data()).
 */
#include "analysis/interproc/tried_starts.h"

/* Adds the functions in [start, end) of a section. */
static void gap_look(struct work *w, struct starts *s, const struct code_section *c, uint64_t start, uint64_t end)
{
	const struct code_range gap = {
		.start = start, .end = end, .bytes = c->bytes + (start - c->addr), .fde = -1, .inferred = true};

	s->count = 0;
	prologues_find(s, &gap, start, end, false);
	starts_try(w, s, &gap, 0, end);
}

void gaps_sweep(struct work *w)
{
	const struct code_space *space = &w->out->space;
	struct starts s = {0};
	size_t i, k = 0, n;
	uint64_t at, end;

	if (elf_is_object(w->file) || w->env.own_stack)
		return;
	for (i = 0; i < space->count; i++) {
		const struct code_section *c = &space->list[i];

		for (at = c->addr; at < c->addr + c->size; at = end) {
			while (k < w->ranges.count && w->ranges.list[k].end <= at)
				k++;
			end = c->addr + c->size;
			if (k < w->ranges.count && w->ranges.list[k].start <= at) {
				end = w->ranges.list[k].end;
				continue;
			}
			if (k < w->ranges.count && w->ranges.list[k].start < end)
				end = w->ranges.list[k].start;
			gap_look(w, &s, c, at, end);
			for (n = 0; n < s.count; n++)
				undiscovered_put(w, s.list[n]);
		}
	}
	starts_free(&s);
	undiscovered_add(w);
}
