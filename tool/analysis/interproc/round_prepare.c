/* SPDX-License-Identifier: MIT */
/*
 * Between two rounds of the fixpoint: updates the facts about all code ranges, in the order in which they depend on one
 * another, and marks the code ranges of the next round (range_state.run). The facts, and why the fixpoint is reached:
 * fixpoint.c.
 */
#include "analysis/interproc/work.h"

/* Are the states of the edges [x, end) confirmed by the rows of the code range that they lead into? */
static bool edges_confirmed(const struct range_state *s, const struct edge *x, const struct edge *end)
{
	struct state state;

	for (; x < end; x++) {
		const struct row *row = range_row_at(&s->rows, x->target);

		if (!row || row->source == ETCH_SOURCE_CFI)
			return false;
		state_unpack(x->state, &state);
		if (state_witness(&state, &row->rule) != WITNESS_CONFIRMS)
			return false;
	}
	return true;
}

/* Marks code ranges whose incoming edges have changed, unless their rows confirm the new states. */
static void edges_apply(struct work *w)
{
	const struct edge *list = w->edges.list;
	size_t i, k = 0, n = w->edges.count;
	uint64_t next = n ? list[0].target : UINT64_MAX;
	bool join = false;

	for (i = 0; i < w->ranges.count; i++) {
		const struct code_range *p = &w->ranges.list[i];
		struct range_state *s = &w->state[i];
		uint64_t sum = 0;
		size_t from;

		if (next >= p->end && !s->edges_seen) /* the common case: no edges now, none before */
			continue;
		while (k < n && list[k].target < p->start)
			k++;
		for (from = k; k < n && list[k].target < p->end; k++)
			sum = edges_sum(sum, &list[k]);
		next = k < n ? list[k].target : UINT64_MAX;
		if (sum == s->edges_seen && !s->run)
			continue;
		/* A part starts from the states of its edges, and the rules compared here cover only part of them. */
		if (sum != s->edges_seen && (s->kind != RANGE_FUNCTION || s->run || !edges_confirmed(s, list + from, list + k)))
			s->run |= RUN_NEWS;
		else if (s->run && k > from)
			s->run |= RUN_EDGES;
		if (s->run && (k > from || sum != s->edges_seen)) {
			s->edges_seen = sum;
			s->edge_runs += s->edge_runs < JOINED_FROM;
			join |= s->edge_runs == JOINED_FROM && !s->joined;
		}
	}
	if (join)
		edges_restart(w);
}

/*
 * Was the start taken for data, or for that of a part into which no frame leads any more, though other code ends in a
 * jump there? Code that turned out to lie after a noreturn call may have been the part's other half.
 */
static bool is_misjudged(const struct range_state *s)
{
	return s->kind == RANGE_DATA ||
	       (s->kind == RANGE_PART && s->empty && s->entered & ENTRY_TAKEN && s->entered & ENTRY_LED);
}

/* Judges such code ranges again, now that the words of data have been scanned and the ends of functions are known. */
static void starts_rejudge(struct work *w)
{
	size_t i;

	for (i = 0; i < w->ranges.count; i++)
		if (is_misjudged(&w->state[i])) {
			w->state[i].kind = RANGE_FUNCTION;
			w->state[i].run |= RUN_NEWS;
		}
}

/* Is there anything for another round to do? */
static bool any_run(struct work *w)
{
	if (!worklist_collect(w))
		return false;
	open_extend(w);
	return true;
}

/*
 * Where nothing is marked, the next stage of the file begins: each takes what the stages before have found to be
 * complete. True: code ranges are marked; false: none are, and there is no further stage.
 */
static bool stage_begin(struct work *w)
{
	bool more = any_run(w);

	if (!more && !w->gaps_swept) {
		w->gaps_swept = true;
		gaps_sweep(w, false);
		more = any_run(w);
	}
	if (!more && !w->words_scanned) { /* a word of data may be the label of a jump table: by now those are known */
		w->words_scanned = true;
		undiscovered_in_words(w);
		starts_rejudge(w);
		more = any_run(w);
	}
	if (!more && !w->words_judged) { /* by now the code ranges that words have added have known ends */
		w->words_judged = true;
		starts_rejudge(w);
		more = any_run(w);
	}
	if (!more && !w->wide_swept) {
		w->wide_swept = true;
		wide_sweep(w);
		more = any_run(w);
	}
	if (!more && !w->gaps_swept_again) {
		w->gaps_swept_again = true;
		gaps_sweep(w, false);
		more = any_run(w);
	}
	if (!more && w->continuation_runs < CONTINUATION_RUNS && continuations_find(w))
		more = any_run(w);
	if (!more && !w->labels_cut) {
		w->labels_cut = true;
		labels_cut(w);
		more = any_run(w);
	}
	if (!more) {
		handlers_find(w);
		more = any_run(w);
	}
	if (!more && w->options->no_cfi && !w->starts_classified) { /* no more evidence will come: judge the rest */
		w->starts_classified = true;
		starts_classify(w);
		more = any_run(w);
	}
	return more;
}

bool round_prepare(struct work *w)
{
	size_t i;

	for (i = 0; i < w->worklist_count; i++)
		w->state[w->worklist[i]].run = 0;
	/* First code with a stack of its own, whose starts are found otherwise, and all new code ranges: these renumber the
	 * others, and what follows goes by number. */
	own_stack_decide(w);
	open_trim(w);
	own_stack_starts(w);
	if (!w->gaps_seen) { /* before numbers in code, and later in data, that equal addresses amid these functions */
		w->gaps_seen = true;
		gaps_sweep(w, true);
	}
	undiscovered_add(w);
	/* Classify each start by what leads to it. */
	called_find(w);
	entry_tail_find(w);
	misfits_find(w);
	proofs_find(w);
	parts_find(w);
	/* Functions under one FDE, and those that do not return: both mark others. */
	wide_called(w);
	noreturn_find(w);
	/* Last, since edges out of code ranges that are marked by now are void. */
	edges_apply(w);
	return stage_begin(w);
}
