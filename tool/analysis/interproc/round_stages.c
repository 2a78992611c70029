/* SPDX-License-Identifier: MIT */
/*
 * Between two rounds of the fixpoint: updates the facts about all code ranges, in the order in which they depend on one
 * another, and marks the code ranges of the next round (range_state.run). fixpoint.c lists the facts, and says why the
 * fixpoint is reached.
 */
#include "analysis/interproc/work.h"
#include "analysis/interproc/noreturn.h"
#include "analysis/interproc/other_frames.h"
#include "analysis/interproc/range_starts.h"
#include "analysis/interproc/rounds.h"

/* Do the rows of a code range confirm the states of the edges [x, end) into it? */
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

/* Have the edges into a code range changed (`sum` is their new checksum), and may this change its results? A part
 * begins in the states of its edges; the rows that are compared here contain only part of such a state, so every change
 * counts for a part. */
static bool edges_matter(const struct range_state *s, uint64_t sum, const struct edge *x, const struct edge *end)
{
	return sum != s->edges_seen && (s->kind != RANGE_FUNCTION || s->run || !edges_confirmed(s, x, end));
}

/* Marks the code ranges whose incoming edges have changed, unless their rows confirm the new states. */
static void edges_apply(struct work *w)
{
	const struct edge *list = w->graph.edges.list;
	size_t i, k = 0, n = w->graph.edges.count;
	uint64_t next = n ? list[0].target : UINT64_MAX;
	bool join = false;

	for (i = 0; i < w->ranges.count; i++) {
		const struct code_range *p = &w->ranges.list[i];
		struct range_state *s = &w->state[i];
		uint64_t sum = 0;
		size_t from;

		/* The usual case: there are no edges now, and there were none before. */
		if (next >= p->end && !s->edges_seen)
			continue;
		while (k < n && list[k].target < p->start)
			k++;
		for (from = k; k < n && list[k].target < p->end; k++)
			sum = edges_sum(sum, &list[k]);
		next = k < n ? list[k].target : UINT64_MAX;
		if (sum == s->edges_seen && !s->run)
			continue;
		if (edges_matter(s, sum, list + from, list + k))
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
 * Was the start of a code range perhaps misjudged? This is so if it was taken for data, or if it was taken for the
 * start of a part into which no frame leads any more, although other code ends with a jump there. Such a part may be
 * the other half of code that turned out to follow a noreturn call.
 */
static bool is_misjudged(const struct range_state *s)
{
	return s->kind == RANGE_DATA ||
	       (s->kind == RANGE_PART && s->empty && s->entered & ENTRY_TAKEN && s->entered & ENTRY_LED);
}

/* Treats code ranges that were perhaps misjudged as functions again. Called once the words of data have been scanned
 * and the ends of functions are known. */
static void starts_rejudge(struct work *w)
{
	size_t i;

	for (i = 0; i < w->ranges.count; i++)
		if (is_misjudged(&w->state[i])) {
			w->state[i].kind = RANGE_FUNCTION;
			w->state[i].run |= RUN_NEWS;
		}
}

/* Is any code range marked? If so, makes it part of the worklist, and extends open code ranges. */
static bool any_run(struct work *w)
{
	if (!worklist_collect(w))
		return false;
	open_extend(w);
	return true;
}

/* The stages of a file: each function below marks code ranges, adds some, or does nothing. */
static void sweep_gaps(struct work *w) { gaps_sweep(w, false); }

static void scan_words(struct work *w)
{
	undiscovered_in_words(w);
	starts_rejudge(w);
}

static void find_continuations(struct work *w)
{
	continuations_find(w);
	if (w->frames.continuation_runs == CONTINUATION_RUNS)
		stage_end(w, STAGE_CONTINUATIONS);
}

/* Starts are only judged with options.no_cfi; otherwise .eh_frame is the evidence. */
static void classify_starts(struct work *w)
{
	if (!w->options->no_cfi)
		return;
	stage_end(w, STAGE_STARTS);
	starts_classify(w);
}

/*
 * When no code range is marked any more, the first stage of this list that has not ended is run. If that marks none
 * either, the next one is run. Each stage needs the complete results of the stages before it. So if a stage has marked
 * code ranges, the rounds go on until none is marked, and the list is tried again from the top.
 *
 * A stage with `once` ends after one run. STAGE_CONTINUATIONS ends after CONTINUATION_RUNS runs. STAGE_HANDLERS never
 * ends, since any round may reveal more handlers, but each is marked only once. STAGE_STARTS ends itself.
 */
static const struct {
	enum stage number;
	bool once;
	void (*run)(struct work *w);
} stages[] = {
	/* Functions to which nothing refers are found between the code ranges to which calls lead. */
	{STAGE_GAPS, true, sweep_gaps},
	/* A word of data may be an entry of a jump table, and the jump tables are known by now. */
	{STAGE_WORDS, true, scan_words},
	/* The code ranges that words have added have got known ends by now. */
	{STAGE_WORDS_JUDGED, true, starts_rejudge},
	/* The call graph shows which functions lie under one FDE that describes none of them. */
	{STAGE_WIDE, true, wide_sweep},
	/* Words and wide FDEs have moved the gaps. */
	{STAGE_GAPS_AGAIN, true, sweep_gaps},
	/* The frames of the code that passes on addresses of continuations are known by now. */
	{STAGE_CONTINUATIONS, false, find_continuations},
	/* The functions that store labels of an interpreter into tables are known by now. */
	{STAGE_LABELS, true, labels_cut},
	/* Handlers are recognised by the frame that their exits show. */
	{STAGE_HANDLERS, false, handlers_find},
	/* No more evidence will come, so the starts without evidence are judged by what there is. */
	{STAGE_STARTS, false, classify_starts},
};

/* Runs stages until one has marked code ranges. Returns false if no stage has marked any. */
static bool stage_begin(struct work *w)
{
	size_t i;

	if (any_run(w))
		return true;
	for (i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
		if (stage_has_ended(w, stages[i].number))
			continue;
		if (stages[i].once)
			stage_end(w, stages[i].number);
		stages[i].run(w);
		if (any_run(w))
			return true;
	}
	return false;
}

bool round_prepare(struct work *w)
{
	size_t i;

	for (i = 0; i < w->rounds.worklist_count; i++)
		w->state[w->rounds.worklist[i]].run = 0;
	/* Code with a stack of its own comes first, whose starts are found in another way, together with all other new code
	 * ranges: adding them renumbers code ranges, and the passes below use the numbers. */
	own_stack_decide(w);
	open_trim(w);
	own_stack_starts(w);
	/* This comes before undiscovered_add(), since numbers in code, and later in data, may happen to equal addresses
	 * inside these functions. */
	if (!stage_has_ended(w, STAGE_PADDED)) {
		stage_end(w, STAGE_PADDED);
		gaps_sweep(w, true);
	}
	undiscovered_add(w);
	/* Classify each start by what leads to it. */
	called_find(w);
	entry_tail_find(w);
	misfits_find(w);
	proofs_find(w);
	parts_find(w);
	/* Finds functions under one FDE, and functions that do not return; both mark other code ranges. */
	wide_called(w);
	noreturn_find(w);
	/* This comes last, because the edges out of code ranges that are marked by then are out of date. */
	edges_apply(w);
	return stage_begin(w);
}
