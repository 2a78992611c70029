/* SPDX-License-Identifier: MIT */
/*
 * Noreturn functions by what the code shows, between two rounds: those of other files by what stands behind calls of
 * them (outside_judge()), those of this file by their exits (inside_judge()), and along chains of calls.
 */
#include "analysis/interproc/noreturn.h"

#include "support/memory.h"

#include <string.h>

/* Number of calls of one imported function: EXIT_LAST (only padding behind the call), and EXIT_FRESH (followed by code
 * that nothing else reaches). */
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
	at->last += x->kind == EXIT_LAST;
	at->fresh += x->kind == EXIT_FRESH;
}

/* Functions of other files: noreturn if a call of one is the end of some code, unless more than three times as many
 * calls of it are followed by code that nothing else reaches. */
static void outside_judge(struct work *w)
{
	struct tallies t = {0};
	size_t i;

	for (i = 0; i < w->calls.other_count; i++) {
		const struct link *x = &w->calls.list[w->calls.others[i]];

		if (x->outside && (x->kind == EXIT_LAST || x->kind == EXIT_FRESH))
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

/* Part of other code that no edge has led to yet: nothing is known of its end. */
static bool is_unseen(const struct work *w, size_t range)
{
	return w->ranges.list[range].part && !w->state[range].edge_runs;
}

/*
 * Functions of this file: noreturn if they neither contain a return nor tail-call a function that may return. A
 * worklist propagates "returns" from tail-call targets back to those that jump to them; the rest is noreturn.
 */
static void inside_judge(struct work *w)
{
	const struct links *tails = &w->tails;
	uint32_t *back = mem_alloc(tails->count + 1, sizeof(*back)); /* sources of tail calls, grouped by target */
	uint32_t *first = mem_zero(w->ranges.count + 2, sizeof(*first));
	uint32_t *todo = mem_alloc(w->ranges.count + 1, sizeof(*todo));
	bool *returns = mem_zero(w->ranges.count + 1, sizeof(*returns));
	size_t count = 0, i;

	for (i = 0; i < tails->count; i++) { /* count by target */
		const struct link *x = &tails->list[i];

		if (x->to != NO_RANGE)
			first[x->to + 1]++;
		else if (!word_has(w->noreturn, w->noreturn_count, x->target))
			returns[x->from] = true;
	}
	for (i = 0; i < w->ranges.count; i++)
		first[i + 1] += first[i];
	for (i = 0; i < tails->count; i++)
		if (tails->list[i].to != NO_RANGE)
			back[first[tails->list[i].to]++] = tails->list[i].from;
	for (i = 0; i < w->ranges.count; i++) {
		bool known = w->state[i].noreturn ||
		             (w->ranges.list[i].plt && word_has(w->noreturn, w->noreturn_count, w->ranges.list[i].start));

		returns[i] = !known && (returns[i] || w->state[i].returns || w->state[i].run || w->ranges.list[i].plt ||
		                        is_unseen(w, i) || call_resumes(&w->ranges.list[i]));
		if (returns[i] && first[i] > (i ? first[i - 1] : 0)) /* something tail-calls it; see below */
			todo[count++] = (uint32_t)i;
	}
	while (count) {
		uint32_t to = todo[--count];

		for (i = to ? first[to - 1] : 0; i < first[to]; i++) /* first[to] is now the end of the group of `to` */
			if (!returns[back[i]] && !w->state[back[i]].noreturn) {
				returns[back[i]] = true;
				todo[count++] = back[i];
			}
	}
	for (i = 0; i < w->ranges.count; i++)
		if (!returns[i] && !w->state[i].noreturn && !w->ranges.list[i].plt) {
			w->state[i].noreturn = true;
			noreturn_add(w, w->ranges.list[i].start);
		}
	noreturn_sort(w);
	free(back);
	free(first);
	free(returns);
	free(todo);
}

/* Marks the code ranges that call a function newly found to be noreturn and have code behind the call: that code may
 * have become unreachable. */
static void callers_run(struct work *w, const uint64_t *fresh, size_t count)
{
	size_t i;

	for (i = 0; i < w->calls.count; i++) {
		const struct link *x = &w->calls.list[i];

		if ((x->kind == EXIT_CALL || x->kind == EXIT_FRESH) && noreturn_may_hold(&w->env, x->target) &&
		    word_has(fresh, count, x->target))
			w->state[x->from].run |= RUN_NEWS;
	}
}

/* First round in which chains are followed: in earlier ones most callers are analysed again in any case. */
#define CHAINS_FROM 4u

/* The noreturn functions that are not in `before` (sorted). From malloc(). */
static uint64_t *noreturn_fresh(const struct work *w, const uint64_t *before, size_t n, size_t *count)
{
	uint64_t *list = mem_alloc(w->noreturn_count + 1, sizeof(*list));
	size_t i;

	*count = 0;
	for (i = 0; i < w->noreturn_count; i++)
		if (!word_has(before, n, w->noreturn[i]))
			list[(*count)++] = w->noreturn[i];
	return list;
}

void noreturn_find(struct work *w)
{
	size_t n = w->noreturn_count, fresh = 0;
	uint64_t *before = mem_alloc(n, sizeof(*before)), *list;

	if (n)
		memcpy(before, w->noreturn, n * sizeof(*before));
	outside_judge(w);
	noreturn_sort(w);
	inside_judge(w);
	list = noreturn_fresh(w, before, n, &fresh);
	if (fresh && w->round >= CHAINS_FROM) {
		chains_follow(w, list, fresh);
		free(list);
		list = noreturn_fresh(w, before, n, &fresh);
	}
	if (fresh)
		callers_run(w, list, fresh);
	free(before);
	free(list);
}
