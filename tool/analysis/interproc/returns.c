/* SPDX-License-Identifier: MIT */
/*
 * Noreturn functions by what the code shows, between two rounds: those of other files by what stands behind calls of
 * them (outside_judge()), those of this file by their exits (inside_judge()), and along chains of calls.
 */
#include "analysis/interproc/noreturn.h"

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

static bool tallies_grow(struct tallies *t)
{
	struct tallies more = {.size = t->size ? 2 * t->size : 1024, .count = t->count};
	size_t i;

	more.list = calloc(more.size, sizeof(*more.list));
	for (i = 0; more.list && i < t->size; i++)
		if (t->list[i].last || t->list[i].fresh)
			*tally_of(&more, t->list[i].target) = t->list[i];
	if (!more.list)
		return false;
	free(t->list);
	*t = more;
	return true;
}

static bool tally_add(struct tallies *t, const struct link *x)
{
	struct tally *at;

	if (2 * t->count >= t->size && !tallies_grow(t))
		return false;
	at = tally_of(t, x->target);
	t->count += !at->last && !at->fresh;
	at->target = x->target;
	at->last += x->kind == EXIT_LAST;
	at->fresh += x->kind == EXIT_FRESH;
	return true;
}

/* Functions of other files: noreturn if a call of one is the end of some code, unless more than three times as many
 * calls of it are followed by code that nothing else reaches. */
static int outside_judge(struct work *w, struct error *e)
{
	struct tallies t = {0};
	bool ok = true;
	size_t i;

	for (i = 0; i < w->calls.other_count && ok; i++) {
		const struct link *x = &w->calls.list[w->calls.others[i]];

		if (x->outside && (x->kind == EXIT_LAST || x->kind == EXIT_FRESH))
			ok = tally_add(&t, x);
	}
	for (i = 0; i < t.size && ok; i++)
		if (t.list[i].last > 0 && t.list[i].fresh <= 3 * (uint64_t)t.list[i].last)
			ok = noreturn_add(w, t.list[i].target);
	free(t.list);
	return ok ? 0 : error_set(e, "out of memory");
}

bool call_resumes(const struct code_range *p)
{
	return p->function && code_convention(p)->resumes && code_convention(p)->resumes(p->function);
}

/*
 * Functions of this file: noreturn if they neither contain a return nor tail-call a function that may return. A
 * worklist propagates "returns" from tail-call targets back to those that jump to them; the rest is noreturn.
 */
static int inside_judge(struct work *w, struct error *e)
{
	const struct links *tails = &w->tails;
	uint32_t *back = malloc((tails->count + 1) * sizeof(*back)); /* sources of tail calls, grouped by target */
	uint32_t *first = calloc(w->ranges.count + 2, sizeof(*first)), *todo;
	bool *returns = calloc(w->ranges.count + 1, sizeof(*returns)), ok = true;
	size_t count = 0, i;

	todo = malloc((w->ranges.count + 1) * sizeof(*todo));
	if (!back || !first || !returns || !todo) {
		ok = false;
		goto out;
	}
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
		                        call_resumes(&w->ranges.list[i]));
		if (returns[i])
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
	for (i = 0; i < w->ranges.count && ok; i++)
		if (!returns[i] && !w->state[i].noreturn && !w->ranges.list[i].plt) {
			w->state[i].noreturn = true;
			ok = noreturn_add(w, w->ranges.list[i].start);
		}
	noreturn_sort(w);
out:
	free(back);
	free(first);
	free(returns);
	free(todo);
	return ok ? 0 : error_set(e, "out of memory");
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

/* The noreturn functions that are not in `before` (sorted). From malloc(), or null: out of memory. */
static uint64_t *noreturn_fresh(const struct work *w, const uint64_t *before, size_t n, size_t *count)
{
	uint64_t *list = malloc((w->noreturn_count + 1) * sizeof(*list));
	size_t i;

	*count = 0;
	for (i = 0; list && i < w->noreturn_count; i++)
		if (!word_has(before, n, w->noreturn[i]))
			list[(*count)++] = w->noreturn[i];
	return list;
}

int noreturn_find(struct work *w, struct error *e)
{
	size_t n = w->noreturn_count, fresh = 0;
	uint64_t *before = malloc((n + 1) * sizeof(*before)), *list = NULL;
	int err = -1;

	if (!before) {
		error_set(e, "out of memory");
		goto out;
	}
	if (n)
		memcpy(before, w->noreturn, n * sizeof(*before));
	if (outside_judge(w, e))
		goto out;
	noreturn_sort(w);
	if (inside_judge(w, e))
		goto out;
	list = noreturn_fresh(w, before, n, &fresh);
	if (list && fresh && w->round >= CHAINS_FROM) {
		if (chains_follow(w, list, fresh, e))
			goto out;
		free(list);
		list = noreturn_fresh(w, before, n, &fresh);
	}
	if (!list) {
		error_set(e, "out of memory");
		goto out;
	}
	if (fresh)
		callers_run(w, list, fresh);
	err = 0;
out:
	free(before);
	free(list);
	return err;
}
