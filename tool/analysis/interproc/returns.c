/* SPDX-License-Identifier: MIT */
/*
 * Finds noreturn functions by what the code shows, between two rounds. Functions of other files are judged by what
 * follows calls of them (outside_judge()), functions of this file by their exits (inside_judge()) and along chains of
 * calls (noreturn_chains.c).
 */
#include "analysis/interproc/noreturn.h"

#include "support/memory.h"

#include <string.h>

/* Counts calls of one imported function. `last` counts the calls that show that it does not return: EXIT_LAST (only
 * padding follows the call) and EXIT_LEFT (the code after the call goes on as if the stack arguments were gone).
 * `fresh` counts the calls of kind EXIT_FRESH: nothing else leads to the code after them. */
struct tally {
	uint64_t target;
	uint32_t last, fresh; /* both 0: the slot of the hash table is empty */
};

struct tallies {
	struct tally *list; /* hash table, open addressing */
	size_t count, size;
};

static struct tally *tally_of(const struct tallies *t, uint64_t target)
{
	size_t mask = t->size - 1, h = (size_t)(target * 0x9e3779b97f4a7c15u >> 32) & mask;

	while ((t->list[h].last || t->list[h].fresh) && t->list[h].target != target)
		h = (h + 1) & mask;
	return &t->list[h];
}

static void tallies_grow(struct tallies *t)
{
	struct tallies more = {.size = t->size ? 2 * t->size : 1024, .count = t->count};
	size_t i;

	more.list = mem_zero(more.size, sizeof(*more.list));
	for (i = 0; i < t->size; i++)
		if (t->list[i].last || t->list[i].fresh)
			*tally_of(&more, t->list[i].target) = t->list[i];
	free(t->list);
	*t = more;
}

static void tally_add(struct tallies *t, const struct link *x)
{
	struct tally *at;

	if (2 * t->count >= t->size)
		tallies_grow(t);
	at = tally_of(t, x->target);
	t->count += !at->last && !at->fresh;
	at->target = x->target;
	at->last += x->kind == EXIT_LAST || x->kind == EXIT_LEFT;
	at->fresh += x->kind == EXIT_FRESH;
}

/* Judges the functions of other files. One is noreturn if some call of it shows that it does not return, unless there
 * are more than three times as many calls followed by code to which nothing else leads. */
static void outside_judge(struct work *w)
{
	struct tallies t = {0};
	size_t i;

	for (i = 0; i < w->graph.calls.other_count; i++) {
		const struct link *x = &w->graph.calls.list[w->graph.calls.others[i]];

		if (x->outside && (x->kind == EXIT_LAST || x->kind == EXIT_LEFT || x->kind == EXIT_FRESH))
			tally_add(&t, x);
	}
	for (i = 0; i < t.size; i++)
		if (t.list[i].last > 0 && t.list[i].fresh <= 3 * (uint64_t)t.list[i].last)
			noreturn_add(w, t.list[i].target);
	free(t.list);
}

bool call_resumes(const struct code_range *p)
{
	return p->function && code_convention(p)->resumes && code_convention(p)->resumes(p->function);
}

/* Is it unknown how a code range ends, because no flow has been found in it yet, or because it is part of other code
 * and no edge has led to it? */
static bool is_unseen(const struct work *w, size_t range)
{
	return w->state[range].empty || (w->ranges.list[range].part && !w->state[range].edge_runs);
}

/*
 * Functions of this file are noreturn if they neither contain a return nor tail-call a function that may return. The
 * candidates are those that contain no return; all others return. If the target of a tail call returns, so does the
 * candidate that makes the call: a worklist propagates this. The candidates that are left are noreturn.
 */
struct candidates {
	uint32_t *list;   /* numbers of code ranges */
	uint32_t *number; /* by number of a code range: 1 + its index in `list`; 0: it is no candidate */
	uint32_t *first;  /* by candidate: 1 + index in `tails` of the first tail call of it; 0: there is none */
	uint32_t *todo;   /* the worklist: candidates that return, whose callers have not been looked at yet */
	bool *returns;
	size_t count, todo_count;
	struct tail {
		/* `from`: the candidate that makes the tail call; `next`: 1 + index of the next tail call of the same
		 * target, or 0. */
		uint32_t from, next;
	} * tails;
	size_t tail_count, tail_capacity;
};

/* Is a code range of the PLT an entry for a noreturn function? */
static bool is_known(const struct work *w, const struct code_range *p)
{
	return p->plt && word_has(w->returns.noreturn, w->returns.noreturn_count, p->start);
}

/* Finds the candidates. */
static void candidates_list(const struct work *w, struct candidates *c)
{
	size_t i;

	c->list = mem_alloc(w->ranges.count, sizeof(*c->list));
	c->number = mem_zero(w->ranges.count, sizeof(*c->number));
	for (i = 0; i < w->ranges.count; i++) {
		const struct code_range *p = &w->ranges.list[i];
		const struct range_state *s = &w->state[i];

		if (s->noreturn || (!p->plt && (s->returns || s->run || is_unseen(w, i) || call_resumes(p))) ||
		    (p->plt && !is_known(w, p)))
			continue;
		c->list[c->count++] = (uint32_t)i;
		c->number[i] = (uint32_t)c->count;
	}
	c->first = mem_zero(c->count, sizeof(*c->first));
	c->todo = mem_alloc(c->count, sizeof(*c->todo));
	c->returns = mem_zero(c->count, sizeof(*c->returns));
}

/* Records that candidate k returns, and puts it on the worklist. */
static void candidate_returns(struct candidates *c, uint32_t k)
{
	if (c->returns[k])
		return;
	c->returns[k] = true;
	c->todo[c->todo_count++] = k;
}

/* Records what link x, a tail call that candidate k makes, shows about candidate k. */
static void tail_note(const struct work *w, struct candidates *c, uint32_t k, const struct link *x)
{
	uint32_t to = x->to != NO_RANGE ? w->graph.place[x->to] : NO_RANGE, other;

	if (to == NO_RANGE) {
		if (!w->ranges.list[c->list[k]].plt && !word_has(w->returns.noreturn, w->returns.noreturn_count, x->target))
			candidate_returns(c, k);
		return;
	}
	other = c->number[to];
	if (other) {
		mem_reserve(&c->tails, &c->tail_capacity, c->tail_count, sizeof(*c->tails));
		c->tails[c->tail_count++] = (struct tail){k, c->first[other - 1]};
		c->first[other - 1] = (uint32_t)c->tail_count;
	} else if (!w->state[to].noreturn) {
		candidate_returns(c, k);
	}
}

static void inside_judge(struct work *w)
{
	struct candidates c = {0};
	size_t i, end;
	uint32_t k;

	candidates_list(w, &c);
	for (k = 0; k < c.count; k++)
		for (i = links_of(&w->graph.tails, w->state[c.list[k]].id, &end); i < end; i++)
			tail_note(w, &c, k, &w->graph.tails.list[i]);
	while (c.todo_count)
		for (k = c.first[c.todo[--c.todo_count]]; k; k = c.tails[k - 1].next)
			candidate_returns(&c, c.tails[k - 1].from);
	for (k = 0; k < c.count; k++)
		if (!c.returns[k] && !w->ranges.list[c.list[k]].plt) {
			w->state[c.list[k]].noreturn = true;
			noreturn_add(w, w->ranges.list[c.list[k]].start);
		}
	noreturn_sort(w);
	free(c.list);
	free(c.number);
	free(c.first);
	free(c.todo);
	free(c.returns);
	free(c.tails);
}

/* Marks the caller of a link that calls a new noreturn function, if code follows the call. */
static void caller_run(void *ctx, const struct link *x)
{
	struct work *w = ctx;

	if (x->kind == EXIT_CALL || x->kind == EXIT_FRESH || x->kind == EXIT_LEFT)
		w->state[w->graph.place[x->from]].run |= RUN_NEWS;
}

/* Marks the code ranges that call a function newly found to be noreturn and have code after the call, which may have
 * become unreachable. */
static void callers_run(struct work *w, const uint64_t *fresh, size_t count)
{
	links_to(w, &w->graph.calls, fresh, count, caller_run, w);
}

/* The first round in which chains are followed. In earlier rounds, most callers are analysed again anyway. */
#define CHAINS_FROM 4u

/* Returns the noreturn functions that are not in `before` (sorted, n elements), and sets *count to their number. The
 * caller frees the list. */
static uint64_t *noreturn_fresh(const struct work *w, const uint64_t *before, size_t n, size_t *count)
{
	uint64_t *list = mem_alloc(w->returns.noreturn_count + 1, sizeof(*list));
	size_t i;

	*count = 0;
	for (i = 0; i < w->returns.noreturn_count; i++)
		if (!word_has(before, n, w->returns.noreturn[i]))
			list[(*count)++] = w->returns.noreturn[i];
	return list;
}

void noreturn_find(struct work *w)
{
	size_t n = w->returns.noreturn_count, fresh = 0;
	uint64_t *before = mem_alloc(n, sizeof(*before)), *list;

	if (n)
		memcpy(before, w->returns.noreturn, n * sizeof(*before));
	outside_judge(w);
	noreturn_sort(w);
	inside_judge(w);
	list = noreturn_fresh(w, before, n, &fresh);
	if (fresh && w->rounds.number >= CHAINS_FROM) {
		chains_follow(w, list, fresh);
		free(list);
		list = noreturn_fresh(w, before, n, &fresh);
	}
	if (fresh)
		callers_run(w, list, fresh);
	free(before);
	free(list);
}
