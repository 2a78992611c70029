/* SPDX-License-Identifier: MIT */
/*
 * If only the entry point of a file jumps to some code, that code has no caller either: like the entry point, it is the
 * outermost frame of its stack (code_range.entry_tail). Called between rounds by round_prepare().
 */
#include "analysis/interproc/work.h"
#include "analysis/interproc/range_starts.h"
#include "support/memory.h"

/* May a code range be code to which only the entry point jumps? Not if .eh_frame or data shows that it is a
 * function. */
static bool may_be_first(const struct work *w, uint32_t i)
{
	const struct code_range *p = &w->ranges.list[i];

	return p->fde < 0 && !p->outermost && !p->plt && !(w->state[i].evidence & (EVIDENCE_FUNCTION | EVIDENCE_SHARED));
}

/* Is `from` the entry point, or code that an earlier round has found to be reached only from it? */
static bool is_first(const struct work *w, uint32_t entry, uint32_t from)
{
	return from == entry || (w->starts.entry_tail && w->ranges.list[from].entry_tail);
}

/* Returns the code range that begins at the target of an edge, or NO_RANGE. */
static uint32_t begun_at(const struct work *w, const struct edge *x)
{
	uint32_t to = range_number(&w->env, x->target);

	return to != NO_RANGE && w->ranges.list[to].start == x->target ? to : NO_RANGE;
}

/* Removes a code range from the candidates for good, because other code than the entry point leads there. */
static void shared_note(struct work *w, bool *candidates, uint32_t to)
{
	if (candidates[to])
		w->state[to].evidence |= EVIDENCE_SHARED;
	candidates[to] = false;
}

/* Removes those candidates to which any code other than the entry point leads. */
static void shared_find(struct work *w, uint32_t entry, bool *candidates)
{
	size_t i;

	for (i = 0; i < w->graph.calls.count; i++)
		if (w->graph.calls.list[i].start)
			shared_note(w, candidates, w->graph.place[w->graph.calls.list[i].to]);
	for (i = 0; i < w->graph.tails.count; i++)
		if (w->graph.tails.list[i].start && !is_first(w, entry, w->graph.place[w->graph.tails.list[i].from]))
			shared_note(w, candidates, w->graph.place[w->graph.tails.list[i].to]);
	for (i = 0; i < w->graph.edges.count; i++) {
		uint32_t to = is_first(w, entry, w->graph.edges.list[i].from) ? NO_RANGE : begun_at(w, &w->graph.edges.list[i]);

		if (to != NO_RANGE)
			shared_note(w, candidates, to);
	}
}

/* Sets candidates[k] for each code range k to which the entry point jumps. Returns whether there are any. */
static bool candidates_find(const struct work *w, uint32_t entry, bool *candidates)
{
	bool some = false;
	uint32_t to;
	size_t i;

	for (i = 0; i < w->graph.tails.count; i++) {
		const struct link *x = &w->graph.tails.list[i];

		if (x->start && is_first(w, entry, w->graph.place[x->from]) && may_be_first(w, w->graph.place[x->to]))
			some = candidates[w->graph.place[x->to]] = true;
	}
	for (i = 0; i < w->graph.edges.count; i++)
		if (is_first(w, entry, w->graph.edges.list[i].from) &&
		    (to = begun_at(w, &w->graph.edges.list[i])) != NO_RANGE && may_be_first(w, to))
			some = candidates[to] = true;
	return some;
}

void entry_tail_find(struct work *w)
{
	uint32_t entry = range_number(&w->env, w->file->eh.e_entry);
	bool *candidates;
	size_t i;

	if (entry == NO_RANGE || !w->ranges.list[entry].outermost || w->ranges.list[entry].function)
		return;
	candidates = mem_zero(w->ranges.count, sizeof(*candidates));
	if (candidates_find(w, entry, candidates) || w->starts.entry_tail) {
		shared_find(w, entry, candidates);
		for (w->starts.entry_tail = false, i = 0; i < w->ranges.count; i++) {
			if (candidates[i] != w->ranges.list[i].entry_tail)
				w->state[i].run |= RUN_NEWS;
			w->starts.entry_tail |= w->ranges.list[i].entry_tail = candidates[i];
			if (candidates[i])
				w->ranges.list[i].may_be_called = w->ranges.list[entry].may_be_called;
		}
	}
	free(candidates);
}
