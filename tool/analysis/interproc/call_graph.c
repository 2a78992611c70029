/* SPDX-License-Identifier: MIT */
/*
 * The call graph between the code ranges of a file, and the edges that carry abstract states between them. Both are
 * kept from round to round; links_replace() exchanges what the code ranges of the last round contributed.
 */
#include "support/sort.h"
#include "analysis/interproc/work.h"
#include "support/memory.h"
#include "shared/search.h"

#include <string.h>

/* ---- edges ------------------------------------------------------------------- */

static uint64_t checksum(uint64_t sum, const void *bytes, size_t size)
{
	const uint8_t *p = bytes;

	while (size--)
		sum = (sum ^ *p++) * 0x100000001b3u; /* FNV-1a */
	return sum;
}

void edges_put(struct edges *l, const struct flow_edge *x, const uint8_t *state)
{
	struct etch_rule rule;

	mem_reserve(&l->list, &l->capacity, l->count, sizeof(*l->list));
	state_rule(&x->state, &rule);
	l->list[l->count++] =
		(struct edge){.target = x->target,
	                  .sum = checksum(checksum(x->misfit, &x->target, sizeof(x->target)), &rule, sizeof(rule)),
	                  .state = state,
	                  .from = x->from,
	                  .at = x->at < 1u << 29 ? x->at : 0,
	                  .entry = state_is_entry(&x->state),
	                  .misfit = x->misfit};
}

size_t edges_from(const struct edges *l, uint64_t addr) { return SEARCH(l->count, i, l->list[i].target < addr); }

static int edge_order(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->target != y->target)
		return x->target < y->target ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

static void edges_drop(struct edges *l, const struct work *w)
{
	size_t i, k;

	for (i = k = 0; i < l->count; i++)
		if (!w->state[l->list[i].from].run)
			l->list[k++] = l->list[i];
	l->count = k;
}

/* Merges the unsorted edges from index `old` on into the sorted ones before it. */
static void edges_merge(struct edges *l, size_t old)
{
	size_t n = l->count - old, at = l->count;
	struct edge *fresh;

	if (!n)
		return;
	fresh = mem_copy(l->list + old, n * sizeof(*fresh));
	sort_by_address(fresh, n, sizeof(*fresh), edge_order);
	while (n) /* from the back: in place */
		if (old && edge_order(&l->list[old - 1], &fresh[n - 1]) > 0)
			l->list[--at] = l->list[--old];
		else
			l->list[--at] = fresh[--n];
	free(fresh);
}

static void edges_append(struct edges *l, struct edges *from)
{
	size_t i;

	for (i = 0; i < from->count; i++) {
		mem_reserve(&l->list, &l->capacity, l->count, sizeof(*l->list));
		l->list[l->count++] = from->list[i];
	}
	free(from->list);
	memset(from, 0, sizeof(*from));
}

void edges_renumber(struct work *w, const uint32_t *moved)
{
	size_t i;

	for (i = 0; i < w->edges.count; i++)
		w->edges.list[i].from = moved[w->edges.list[i].from];
}

/* Makes room for the links of all chunks at once. */
static void chunks_reserve(struct work *w)
{
	size_t calls = 0, tails = 0, edges = w->edges.count, k;

	for (k = 0; k < w->chunk_count; k++) {
		calls += w->chunks[k].calls.count;
		tails += w->chunks[k].tails.count;
		edges += w->chunks[k].edges.count;
	}
	links_reserve(&w->calls, calls);
	links_reserve(&w->tails, tails);
	if (edges > w->edges.capacity) {
		w->edges.capacity = edges;
		w->edges.list = mem_resize(w->edges.list, edges, sizeof(*w->edges.list));
	}
}

/* ---- all ------------------------------------------------------------------------- */

void links_replace(struct work *w)
{
	size_t old, i, k;

	edges_drop(&w->edges, w);
	links_drop(w, &w->calls);
	links_drop(w, &w->tails);
	for (i = 0; i < w->worklist_count; i++) {
		struct range_state *s = &w->state[w->worklist[i]];

		touched_add(w, s);
	}
	chunks_reserve(w);
	old = w->edges.count;
	for (k = 0; k < w->chunk_count; k++) { /* in order of chunks: deterministic for any number of threads */
		edges_append(&w->edges, &w->chunks[k].edges);
		links_append(w, &w->calls, &w->chunks[k].calls);
		links_append(w, &w->tails, &w->chunks[k].tails);
	}
	edges_merge(&w->edges, old);
}
