/* SPDX-License-Identifier: MIT */
/*
 * The fixpoint over the code ranges of a file: a worklist, run round by round, so that the result does not depend on
 * the order of threads. A marked code range (range_state.run) is analysed in the next round (round.c); a changed fact
 * marks the code ranges that depend on it:
 *
 *   fact                          set by                         marks
 *   ----------------------------  -----------------------------  ------------------------------------------------
 *   a code range begins here      undiscovered_add(),            the new code range; the one that is cut there; for
 *                                 wide_called(), wide_sweep(),   the wide_ ones the code range of the FDE
 *                                 gaps_sweep(), labels_cut()
 *   handler of an interpreter     handlers_find()                itself, and what continues in it
 *   frame of a continuation       continuations_find()           itself, and what hands it on
 *   end of an open code range     open_trim(), open_extend()     itself
 *   function is noreturn          noreturn_ahead(), before the   callers with code after the call; along chains of
 *                                 first round; noreturn_find()   calls without rounds (noreturn_chains.c)
 *   frames that edges bring       edges_apply()                  itself, unless its rows confirm them
 *   called, or part of another    called_find(),                 itself; for a part also those that tail-call it
 *   function                      parts_find()
 *   evidence of a function start  starts_classify()              itself
 *   jumps to a start in another   misfits_find()                 itself
 *   state than an entry's
 *   only the entry point leads    entry_tail_find()              itself
 *   here
 *   code with its own stack       own_stack_decide()             code ranges that may be such code: without FDE
 *   ends of what words refer to   starts_rejudge()               code ranges that those words alone lead to, and
 *                                                                parts that no frame leads into any more
 *   joins before handlers were    joins_forget()                 code ranges whose incoming states were joined
 *   found are void
 *
 *   callee --noreturn--> caller --its code ends at the call--> what that code called, jumped to, or fell into
 *   code range --frame of an edge out of it--> target --rows, function or part--> its own edges --> ...
 *
 * Termination. The following facts are monotonic; each changes a bounded number of times:
 * - code ranges: no two begin at one address, and none is removed; bound: bytes of code
 * - returns_home, entry_refuted, tail_proved, address_taken: never withdrawn; bound: 1 per code range
 * - noreturn: never withdrawn (range_state.noreturn); bound: 1 per code range
 * - evidence: a set that only grows; bound: its bits, per code range
 * - frame, trial: change in one direction; bound: 3 and 2 per code range
 * - was_empty: never withdrawn, except by own_stack_decide(), which is bounded itself; bound: 1 per code range
 * - changes of misfit to a lower one: after MISFIT_LOSSES_MOST it stays; bound: that, per code range
 * - changes from callee to none: after CALLEE_LOSSES_MOST it stays one; bound: that, per code range
 * - stages of the file (enum stage) and own stack or not (own_stack.differ); bound: CONTINUATION_RUNS for
 *   STAGE_CONTINUATIONS, what `frame` bounds for STAGE_HANDLERS, else 1
 * - joined: set for code ranges whose edges have changed JOINED_FROM times, and those of the same loop; bound: 1
 *   per code range, and once more for each continuations_find(), which begins anew, as it does with `frame`
 * - incoming states of a joined code range: later ones are joined into them (edges_join()), and a join only lowers a
 *   register or stack slot from a value to unknown; bound: the height of the lattice per target, restarted whenever
 *   handlers_find() marks a code range, which `frame` bounds
 * - settling, see below; bound: 2 per code range
 * All other facts (ends of open code ranges, parts, links and edges) may oscillate, but they are a function of the
 * previous round, and there are finitely many cases: while no monotonic fact changes, either a round has nothing to do
 * or an earlier state recurs. state_recurs() detects a recurrence; all code ranges analysed since then become
 * unsettled: their edges and links are dropped, and they keep the rows of .eh_frame, if any.
 */
#include "analysis/interproc/work.h"
#include "analysis/interproc/range_starts.h"
#include "analysis/interproc/rounds.h"
#include "support/memory.h"
#include "shared/search.h"

#include <string.h>

/* ---- joined ------------------------------------------------------------------------------------ */

/*
 * The incoming states of some code ranges never settle by themselves. A loop may lead through several code ranges, such
 * as a function and its cold part. An edge from code that later turns out to follow a noreturn call may then circulate
 * for ever, one round after the correction; and if each iteration lowers rsp, the states never repeat. So the edges
 * among these code ranges are dropped, which leaves the edges from outside, and all later states are joined: this gives
 * the least fixpoint (P. and R. Cousot, POPL 1977).
 */

/* The join of all states that edges have brought to one address in a joined code range. */
struct join {
	uint64_t target;
	struct state state;
};

/* The joins of one code range, sorted by target. Most code ranges have one or two, and a file may have a million code
 * ranges, so the list starts with space for one element. */
struct joins {
	uint32_t count, capacity;
	struct join list[];
};

void joins_clear(struct range_state *s)
{
	if (!s->rare)
		return;
	free(s->rare->joins);
	s->rare->joins = NULL;
}

void tails_clear(struct range_state *s)
{
	if (!s->rare)
		return;
	free(s->rare->tails);
	s->rare->tails = NULL;
}

void edges_restart(struct work *w)
{
	size_t i, k;

	for (i = 0; i < w->ranges.count; i++) {
		struct range_state *s = &w->state[i];

		/* All code ranges of one loop have about the same count. */
		if (s->joined || s->edge_runs < JOINED_FROM / 2)
			continue;
		s->joined = true;
		s->edge_runs = JOINED_FROM;
		s->edges_seen = 0;
		s->run |= RUN_NEWS;
	}
	for (i = k = 0; i < w->graph.edges.count; i++)
		if (!w->state[w->graph.edges.list[i].from].joined || !w->state[w->graph.edges.list[i].from].run)
			w->graph.edges.list[k++] = w->graph.edges.list[i];
	w->graph.edges.count = k;
}

/* Returns the index of the first join whose target is not below `target`. */
static uint32_t join_from(const struct joins *l, uint64_t target)
{
	return l ? (uint32_t)SEARCH(l->count, i, l->list[i].target < target) : 0;
}

/* Joins the state of an edge into the join for its target, which is added if it is missing. */
static void join_take(struct range_state *s, const struct flow_edge *x)
{
	struct joins *l = range_rare(s)->joins;
	uint32_t at = join_from(l, x->target), count = l ? l->count : 0;

	if (at < count && l->list[at].target == x->target) {
		state_join(&l->list[at].state, &x->state);
		return;
	}
	if (!l || l->count == l->capacity) {
		uint32_t capacity = l ? 2 * l->capacity : 1;

		l = range_rare_make(s)->joins = mem_resize(l, 1, sizeof(*l) + capacity * sizeof(l->list[0]));
		l->count = count;
		l->capacity = capacity;
	}
	memmove(&l->list[at + 1], &l->list[at], (count - at) * sizeof(l->list[0]));
	l->list[at].target = x->target;
	state_copy(&l->list[at].state, &x->state);
	l->count++;
}

void edges_join(const struct code_range *p, struct range_state *s, struct flow_edge **in, size_t *capacity,
                size_t *count)
{
	uint32_t from = *count ? (*in)[0].from : 0, i;
	const struct joins *l;
	size_t n = 0, k;

	for (k = 0; k < *count; k++)
		join_take(s, &(*in)[k]);
	l = range_rare(s)->joins;
	for (i = join_from(l, p->start); l && i < l->count && l->list[i].target < p->end; i++) {
		mem_reserve(in, capacity, n, sizeof(**in));
		(*in)[n].target = l->list[i].target;
		(*in)[n].from = from;
		(*in)[n].at = 0;
		(*in)[n].misfit = MISFIT_NONE;
		state_copy(&(*in)[n++].state, &l->list[i].state);
	}
	*count = n;
}

/* ---- detection of recurring states ------------------------------------------------------------- */

/* Extends a checksum by one word. */
static uint64_t mix(uint64_t sum, uint64_t word)
{
	sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
	return sum ^ sum >> 29;
}

static uint64_t mix_bytes(uint64_t sum, const void *bytes, size_t size)
{
	const uint8_t *at = bytes;
	uint64_t word;

	for (; size >= 8; size -= 8, at += 8) {
		memcpy(&word, at, 8);
		sum = mix(sum, word);
	}
	while (size--)
		sum = mix(sum, *at++);
	return sum;
}

uint64_t range_sum(const struct flow *f, const struct range_rows *rows)
{
	uint8_t packed[PACKED_MOST];
	uint64_t sum = 1;
	size_t i;

	for (i = 0; i < f->found.exit_count; i++)
		sum = mix(mix(sum, f->found.exits[i].target), f->found.exits[i].kind);
	for (i = 0; i < f->found.edge_count; i++)
		sum = mix_bytes(mix(sum, f->found.edges[i].target), packed, state_pack(&f->found.edges[i].state, packed));
	for (i = 0; i < rows->count; i++)
		sum = mix_bytes(mix(sum, rows->rows[i].addr), &rows->rows[i].rule, sizeof(rows->rows[i].rule));
	return sum;
}

/* Returns a checksum of all that is known of a code range and on which the next round depends. Every new member of
 * range_state of this kind must be added here. */
static uint64_t state_sum(const struct code_range *p, const struct range_state *s)
{
	const struct range_rare *rare = range_rare(s);
	const uint8_t flags[] = {
		s->kind,
		s->evidence,
		s->frame,
		s->trial,
		s->is_callee,
		s->callee_losses,
		s->framed_part,
		s->known_part,
		s->relaxed_rules,
		s->noreturn,
		s->misfit,
		s->misfit_losses,
		s->address_taken,
		s->returns_home,
		s->wants_proof,
		s->entry_refuted,
		s->tail_proved,
		s->last_start,
		s->returns,
		s->returns_as_c,
		s->returns_balanced,
		s->exit_sp_mismatch,
		s->switches_stack,
		s->non_c_frame,
		s->flows_to_end,
		s->keeps_frame,
		rare->dispatch_otherwise != 0,
		s->cfi_one_row,
		s->cfi_denied,
		s->empty,
		s->was_empty,
		s->cut_is_neutral,
		s->edge_runs,
		s->joined,
		s->run,
		s->settling != SETTLING,
		p->entry_tail,
		p->handler,
	};

	return mix_bytes(mix(mix(mix(mix(rare->result_sum, p->end), s->reached), s->edges_seen), rare->dispatch), flags,
	                 sizeof(flags));
}

/* Returns a checksum of what is known of the file as a whole, outside of the code ranges. */
static uint64_t file_sum(const struct work *w)
{
	return mix(mix(w->returns.noreturn_count, w->ranges.count), w->env.own_stack | w->frames.handlers_tried << 1 |
	                                                                w->rounds.stages_ended << 2 |
	                                                                (uint64_t)w->frames.continuation_runs << 32);
}

/* Returns a checksum of all state on which the next round depends. */
static uint64_t work_sum(const struct work *w)
{
	uint64_t sum = file_sum(w);
	size_t i;

	for (i = 0; i < w->ranges.count; i++)
		sum = mix(sum, state_sum(&w->ranges.list[i], &w->state[i]));
	return sum;
}

/* Returns a checksum like work_sum(), but over the marked code ranges only. It is a cheap filter: if it differs,
 * work_sum() differs too. */
static uint64_t marked_sum(const struct work *w)
{
	uint64_t sum = file_sum(w);
	size_t i;

	for (i = 0; i < w->rounds.worklist_count; i++) {
		uint32_t k = w->rounds.worklist[i];

		sum = mix(mix(sum, k), state_sum(&w->ranges.list[k], &w->state[k]));
	}
	return sum;
}

/*
 * Is the state the same as after an earlier round? If so, sets *since to that round. This is cycle detection with one
 * reference round, which is replaced by the current round whenever the number of rounds has doubled (R. P. Brent, "An
 * improved Monte Carlo factorization algorithm", 1980). It starts at RECURRENCE_FROM, which few files reach.
 */
static bool state_recurs(struct work *w, uint32_t *since)
{
	uint64_t marked;

	if (w->rounds.number < RECURRENCE_FROM)
		return false;
	marked = marked_sum(w);
	*since = w->rounds.reference;
	if (w->rounds.reference && marked == w->rounds.reference_marked && work_sum(w) == w->rounds.reference_sum)
		return true;
	if (!w->rounds.reference || w->rounds.number >= 2 * w->rounds.reference) {
		w->rounds.reference = w->rounds.number;
		w->rounds.reference_sum = work_sum(w);
		w->rounds.reference_marked = marked;
	}
	return false;
}

/* Makes the code ranges that were analysed after round `since` unsettled, and marks only these. */
static void unsettled_mark(struct work *w, uint32_t since)
{
	size_t i;

	for (i = 0; i < w->ranges.count; i++) {
		struct range_state *s = &w->state[i];

		s->run = 0;
		if (s->last_round <= since || s->settling != SETTLING)
			continue;
		s->settling = UNSETTLED;
		s->run = RUN_NEWS;
	}
	w->rounds.reference = 0;
	worklist_collect(w);
}

void fixpoint_find(struct work *w)
{
	bool more = true;
	uint32_t since;

	wide_named(w);
	worklist_collect(w);
	while (more) {
		w->rounds.number++;
		round_run(w);
		more = round_prepare(w);
		if (more && state_recurs(w, &since))
			unsettled_mark(w, since);
	}
}
