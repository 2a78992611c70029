/* SPDX-License-Identifier: MIT */
/*
 * Handlers of interpreters without .eh_frame, such as JavaScriptCore's LLInt, are basic blocks of one computed goto
 * that extends over many code ranges. Each is entered only through a table of their addresses. No address in the file
 * says which handler follows which, but that need not be known: any handler may follow any other, so all of them begin
 * and dispatch in one frame. That frame is known at a function that dispatches after its prologue, push %rbp; mov %rsp,
 * %rbp. A table is identified by its address or, in libraries, by the word from which its address is loaded.
 *
 * A code range is a candidate if it uses a frame that it did not set up, and nothing calls it. It is also a candidate
 * if nothing is known of it except that its address is taken, and it dispatches through such a table. A candidate is a
 * handler if it never leaves in another frame, and if one of the following holds:
 *   - a path through it dispatches through such a table with that frame, where rbp is unchanged or is loaded from
 * elsewhere (as where execution continues after an exception is caught);
 *   - a path through it returns, or makes a tail call, after an epilogue by rbp, which takes [rbp + 8] for the return
 * address;
 *   - a path through it continues, with that frame, in a handler;
 *   - a handler continues in it with that frame, as where an exception is thrown;
 *   - it dispatches through a table that no other code uses, as a prefix for wide instructions does, and the code that
 * takes its address takes those of many handlers.
 *
 * The row of a handler is the frame that exits show. It is right however the handler was entered.
 */
#include "analysis/flow/flow_internal.h"
#include "analysis/interproc/work.h"
#include "analysis/interproc/other_frames.h"
#include "analysis/interproc/range_starts.h"
#include "analysis/interproc/rounds.h"
#include "support/memory.h"
#include "shared/search.h"

#include <stdlib.h>

/* A function that stores at least this many addresses fills a table of labels. */
#define LABELS_LEAST 16u

/* The tables through which functions dispatch after a prologue, sorted. A table is an address, or that of the word that
 * holds its address. */
struct tables {
	uint64_t *list;
	size_t count, capacity;
};

/* Is `addr` one of these tables? 0 stands for no table. */
static bool is_table(const struct tables *t, uint64_t addr) { return addr && word_has(t->list, t->count, addr); }

static void table_put(struct tables *t, uint32_t addr)
{
	if (!addr)
		return;
	mem_reserve(&t->list, &t->capacity, t->count, sizeof(*t->list));
	t->list[t->count++] = addr;
}

/* Is nothing known of the start of a code range except that its address is taken? */
static bool is_taken_only(const struct work *w, size_t i)
{
	const struct range_state *s = &w->state[i];

	return w->ranges.list[i].inferred && !s->evidence && s->entered == (ENTRY_TAKEN | ENTRY_REFERRED);
}

/* May a code range that is analysed as a function be a label of an interpreter as well? */
static bool may_be_label(const struct work *w, size_t i)
{
	return w->state[i].frame == FRAME_OWN && is_taken_only(w, i);
}

/* Finds the tables through which functions dispatch after a prologue, except for tables through which some function
 * dispatches in another frame. */
static void tables_find(const struct work *w, struct tables *t)
{
	struct tables other = {0};
	size_t i, k;

	for (i = 0; i < w->ranges.count; i++) {
		const struct range_state *s = &w->state[i];

		if (s->last_start == START_PART || w->ranges.list[i].fde >= 0)
			continue;
		table_put(t, range_rare(s)->dispatch);
		if (!may_be_label(w, i))
			table_put(&other, range_rare(s)->dispatch_otherwise);
	}
	t->count = words_unique(t->list, t->count);
	other.count = words_unique(other.list, other.count);
	for (i = k = 0; i < t->count; i++)
		if (!is_table(&other, t->list[i]))
			t->list[k++] = t->list[i];
	t->count = k;
	free(other.list);
}

/* Cuts open code ranges at the labels whose addresses are taken, if the code range that takes them takes at least
 * LABELS_LEAST addresses. taken[id] is the number of addresses that code range `id` takes. `was` is as for
 * open_cut_at(). */
static void cut_at_labels(struct work *w, uint64_t *was, const uint32_t *taken)
{
	size_t i;

	for (i = 0; i < w->graph.calls.count; i++) {
		const struct link *x = &w->graph.calls.list[i];

		if (x->kind == EXIT_REF && !x->start && x->to != NO_RANGE && taken[x->from] >= LABELS_LEAST)
			open_cut_at(w, was, w->graph.place[x->to], x->target);
	}
}

void labels_cut(struct work *w)
{
	struct tables t = {0};
	uint32_t *taken;
	uint64_t *was;
	size_t i;

	tables_find(w, &t);
	if (t.count) {
		was = mem_zero(w->ranges.count, sizeof(*was));
		taken = mem_zero(w->ranges.count, sizeof(*taken));
		for (i = 0; i < w->graph.calls.count; i++)
			if (w->graph.calls.list[i].kind == EXIT_REF)
				taken[w->graph.calls.list[i].from]++;
		cut_at_labels(w, was, taken);
		w->unindexed = true;
		open_cuts_note(w, was);
		free(was);
		free(taken);
	}
	free(t.list);
	undiscovered_add(w);
}

/*
 * Forgets the incoming states that were joined (edges_join()) before handlers were found, since they had no frame, and
 * marks their code ranges. Does this once for each set of new handlers, after the rounds have propagated their frames.
 * Returns whether there were any such states.
 */
static bool joins_forget(struct work *w)
{
	bool some = false;
	size_t i;

	for (i = 0; i < w->ranges.count && w->frames.handlers_tried; i++) {
		struct range_state *s = &w->state[i];

		if (!range_rare(s)->joins || w->ranges.list[i].fde >= 0)
			continue;
		joins_clear(s);
		s->run |= RUN_NEWS;
		some = true;
	}
	w->frames.handlers_tried = false;
	return some;
}

/* Is the code range a handler, as exits show? */
static bool is_found(const struct work *w, size_t i)
{
	return w->state[i].frame == FRAME_HANDLER && w->state[i].is_handler;
}

/* A dispatch: a table, and a code range that dispatches through it. */
struct use {
	uint32_t table, range;
};

/* All dispatches of a file. */
struct uses {
	struct use *list; /* sorted */
	size_t count;
};

static int use_order(const void *a, const void *b)
{
	const struct use *x = a, *y = b;

	if (x->table != y->table)
		return x->table < y->table ? -1 : 1;
	return x->range < y->range ? -1 : x->range > y->range;
}

/* Finds all dispatches of code ranges through tables. */
static void uses_find(const struct work *w, struct uses *u)
{
	size_t i;

	u->list = mem_alloc(2 * w->ranges.count, sizeof(*u->list));
	for (u->count = i = 0; i < w->ranges.count; i++) {
		if (range_rare(&w->state[i])->dispatch)
			u->list[u->count++] = (struct use){range_rare(&w->state[i])->dispatch, (uint32_t)i};
		if (range_rare(&w->state[i])->dispatch_otherwise)
			u->list[u->count++] = (struct use){range_rare(&w->state[i])->dispatch_otherwise, (uint32_t)i};
	}
	if (u->count)
		qsort(u->list, u->count, sizeof(*u->list), use_order);
}

/* Is code range i the only one that dispatches through the table that it uses? */
static bool has_own_table(const struct work *w, const struct uses *u, size_t i)
{
	const struct range_state *s = &w->state[i];
	uint32_t table = s->frame == FRAME_HANDLER ? range_rare(s)->dispatch : range_rare(s)->dispatch_otherwise;
	size_t k = SEARCH(u->count, n, u->list[n].table < table);

	/* Range i itself has at most two of these uses. */
	for (; table && k < u->count && u->list[k].table == table; k++)
		if (u->list[k].range != i)
			return false;
	return table != 0;
}

/* May a code range be a prefix: a label that dispatches through a table of its own? */
static bool may_be_prefix(const struct work *w, const struct uses *u, size_t i)
{
	return (w->state[i].frame == FRAME_OWN || w->state[i].frame == FRAME_HANDLER) && !is_found(w, i) &&
	       is_taken_only(w, i) && has_own_table(w, u, i);
}

/* Finds the prefixes. A prefix is a label with a table of its own, whose address is taken by a code range that also
 * takes the addresses of many known handlers. Returns an array with one flag per code range, which the caller frees. */
static bool *prefixes_find(const struct work *w)
{
	/* By identity of a code range: number of handlers whose addresses it takes. */
	uint32_t *known = mem_zero(w->ranges.count, sizeof(*known));
	bool *prefix = mem_zero(w->ranges.count, sizeof(*prefix));
	struct uses uses;
	size_t i;

	uses_find(w, &uses);
	for (i = 0; i < w->graph.calls.count; i++) {
		const struct link *x = &w->graph.calls.list[i];

		if (x->kind == EXIT_REF && x->start)
			known[x->from] += is_found(w, w->graph.place[x->to]);
	}
	for (i = 0; i < w->graph.calls.count; i++) {
		const struct link *x = &w->graph.calls.list[i];

		if (x->kind == EXIT_REF && x->start && known[x->from] >= LABELS_LEAST &&
		    may_be_prefix(w, &uses, w->graph.place[x->to]))
			prefix[w->graph.place[x->to]] = true;
	}
	free(known);
	free(uses.list);
	return prefix;
}

/* Sets is_handler of the prefixes that are already analysed as handlers. Returns whether any are new. */
static bool prefixes_take(struct work *w, const bool *prefix)
{
	bool some = false;
	size_t i;

	for (i = 0; i < w->ranges.count; i++)
		if (prefix[i] && w->state[i].frame == FRAME_HANDLER && !w->state[i].is_handler)
			some = w->state[i].is_handler = true;
	return some;
}

/* Tries code ranges as handlers: those that begin in a frame of other code, and the labels that dispatch in the frame
 * in which they begin. */
static void handlers_try(struct work *w, const struct tables *t, const bool *prefix)
{
	size_t i;

	for (i = 0; i < w->ranges.count; i++) {
		struct range_state *s = &w->state[i];

		bool label = may_be_label(w, i) && (is_table(t, range_rare(s)->dispatch_otherwise) || prefix[i]);

		if ((s->frame != FRAME_OTHER && s->frame != FRAME_TABLE && !label) || s->is_callee ||
		    w->ranges.list[i].fde >= 0)
			continue;
		if (label) {
			s->kind = RANGE_PART;
			s->relaxed_rules = false;
		}
		s->frame = FRAME_HANDLER;
		s->run |= RUN_NEWS;
		w->frames.handlers_tried = true;
	}
}

/* Do the exits of a code range show the frame of an interpreter? */
static bool is_shown(const struct tables *t, const struct range_state *s)
{
	return is_table(t, range_rare(s)->dispatch) || (s->frame == FRAME_HANDLER && s->keeps_frame);
}

/* Does an edge bring the frame of an interpreter? */
static bool brings_frame(const struct edge *x)
{
	struct state state;

	state_unpack(x->state, &state);
	return flow_has_frame(&state);
}

/* Spreads is_handler along the edges that bring the frame: from the target back to the code range of the jump, and from
 * there to targets that begin in a frame of other code. Returns whether any code range has changed. */
static bool handlers_spread(struct work *w)
{
	bool some = false;
	size_t i, k = 0;

	for (i = 0; i < w->graph.edges.count; i++) {
		const struct edge *x = &w->graph.edges.list[i];
		struct range_state *from = &w->state[x->from], *to;

		while (k < w->ranges.count && w->ranges.list[k].end <= x->target)
			k++;
		if (k == w->ranges.count)
			break;
		to = &w->state[k];
		if (to->is_handler == from->is_handler || x->target < w->ranges.list[k].start)
			continue;
		if (!to->is_handler && (to->frame != FRAME_HANDLER || x->target != w->ranges.list[k].start))
			continue;
		if (brings_frame(x))
			some = to->is_handler = from->is_handler = true;
	}
	return some;
}

/* Sets code_range.handler of the handlers found, and marks the code ranges that jump there: code that continues in a
 * handler has its frame too, even where no state shows it. */
static void handlers_tell(struct work *w)
{
	size_t i, k = 0;

	for (i = 0; i < w->graph.edges.count; i++) {
		const struct edge *x = &w->graph.edges.list[i];

		while (k < w->ranges.count && w->ranges.list[k].start < x->target)
			k++;
		if (k < w->ranges.count && w->ranges.list[k].start == x->target && w->ranges.list[k].handler != is_found(w, k))
			w->state[x->from].run |= RUN_NEWS;
	}
	w->env.handlers = false;
	for (i = 0; i < w->ranges.count; i++)
		w->env.handlers |= w->ranges.list[i].handler = is_found(w, i);
}

/* Sets is_handler of the code ranges whose frame is shown. Returns the result of prefixes_find(), which the caller
 * frees, or null if there are no tables. */
static bool *handlers_mark(struct work *w, const struct tables *t)
{
	bool *prefix = NULL;
	size_t i;

	for (i = 0; i < w->ranges.count; i++)
		w->state[i].is_handler = is_shown(t, &w->state[i]);
	if (!t->count)
		return NULL;
	do {
		free(prefix);
		while (handlers_spread(w))
			;
		prefix = prefixes_find(w);
	} while (prefixes_take(w, prefix));
	return prefix;
}

void handlers_find(struct work *w)
{
	struct tables t = {0};
	bool *prefix;
	size_t i;

	if (joins_forget(w))
		return;
	tables_find(w, &t);
	prefix = handlers_mark(w, &t);
	for (i = 0; i < w->ranges.count; i++) {
		struct range_state *s = &w->state[i];

		if (s->frame != FRAME_HANDLER || s->is_handler)
			continue;
		s->frame = FRAME_NO_HANDLER;
		s->run |= RUN_NEWS;
	}
	if (t.count)
		handlers_try(w, &t, prefix);
	handlers_tell(w);
	free(prefix);
	free(t.list);
}
