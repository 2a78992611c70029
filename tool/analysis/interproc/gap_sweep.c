/* SPDX-License-Identifier: MIT */
/*
 * Functions in the gaps between code ranges of a linked file: called through pointers that code computes, or from other
 * such functions, as in builtins of a virtual machine and in stripped programs that are not position-independent. Where
 * .eh_frame and symbols say nothing, each prologue is tried as a function's start. Like any start of which only the
 * address is known, it is judged once more by its exits and edges (may_be_data()).
 *
 * A code range that was taken for data, though its address is taken by code, is part of such a gap: its end was not
 * known, so that other functions have been followed with it, and the functions behind it are known by now.
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

/* Is code range `k` what was taken for data, and is it of no size, since nothing of it counts as code? */
static bool is_gap(const struct work *w, size_t k)
{
	const struct range_state *s = &w->state[k];

	return s->kind == RANGE_DATA && !(s->evidence & EVIDENCE_WORD) && w->ranges.list[k].open;
}

/* Judges code range `k`, which has been tried as a function, again. */
static void range_rejudge(struct work *w, size_t k)
{
	w->state[k].kind = RANGE_FUNCTION;
	w->state[k].run |= RUN_NEWS;
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
			bool known;

			while (k < w->ranges.count && w->ranges.list[k].end <= at)
				k++;
			end = c->addr + c->size;
			known = k < w->ranges.count && w->ranges.list[k].start <= at;
			if (known && !is_gap(w, k)) {
				end = w->ranges.list[k].end;
				continue;
			}
			if (k + known < w->ranges.count && w->ranges.list[k + known].start < end)
				end = w->ranges.list[k + known].start;
			gap_look(w, &s, c, at, end);
			for (n = 0; n < s.count; n++)
				if (known && s.list[n] == w->ranges.list[k].start)
					range_rejudge(w, k);
				else
					undiscovered_put(w, s.list[n]);
		}
	}
	starts_free(&s);
	undiscovered_add(w);
}
