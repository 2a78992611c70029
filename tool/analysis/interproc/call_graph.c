/* SPDX-License-Identifier: MIT */
/*
 * The call graph between the code ranges of a file, and the edges that carry abstract states between code ranges. Both
 * are kept from round to round; links_replace() replaces the links and edges out of the code ranges that the last round
 * has analysed.
 */
#include "support/sort.h"
#include "analysis/interproc/work.h"
#include "support/memory.h"
#include "shared/search.h"

#include <string.h>

/* ---- edges ------------------------------------------------------------------- */

/* Extends an FNV-1a checksum by some bytes. */
static uint64_t checksum(uint64_t sum, const void *bytes, size_t size)
{
	const uint8_t *p = bytes;

	while (size--)
		sum = (sum ^ *p++) * 0x100000001b3u;
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

/* Drops the edges out of the code ranges that are marked. */
static void edges_drop(struct edges *l, const struct work *w)
{
	size_t i, k;

	for (i = k = 0; i < l->count; i++)
		if (!w->state[l->list[i].from].run)
			l->list[k++] = l->list[i];
	l->count = k;
}

/* Merges the edges from index `old` on, which are not sorted, into the edges before it, which are. */
static void edges_merge(struct edges *l, size_t old)
{
	size_t n = l->count - old, at = l->count;
	struct edge *fresh;

	if (!n)
		return;
	fresh = mem_copy(l->list + old, n * sizeof(*fresh));
	sort_by_address(fresh, n, sizeof(*fresh), edge_order);
	while (n) /* merges from the end, so that it works in place */
		if (old && edge_order(&l->list[old - 1], &fresh[n - 1]) > 0)
			l->list[--at] = l->list[--old];
		else
			l->list[--at] = fresh[--n];
	free(fresh);
}

/* Moves all edges of `from` to the end of `l`, unsorted. */
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

	for (i = 0; i < w->graph.edges.count; i++)
		w->graph.edges.list[i].from = moved[w->graph.edges.list[i].from];
}

/* Makes space for the links and edges of all chunks at once. */
static void chunks_reserve(struct work *w)
{
	size_t calls = 0, tails = 0, edges = w->graph.edges.count, k;

	for (k = 0; k < w->rounds.chunk_count; k++) {
		calls += w->rounds.chunks[k].calls.count;
		tails += w->rounds.chunks[k].tails.count;
		edges += w->rounds.chunks[k].edges.count;
	}
	links_reserve(&w->graph.calls, calls);
	links_reserve(&w->graph.tails, tails);
	if (edges > w->graph.edges.capacity) {
		w->graph.edges.capacity = edges;
		w->graph.edges.list = mem_resize(w->graph.edges.list, edges, sizeof(*w->graph.edges.list));
	}
}

/* ---- links and edges together ----------------------------------------------------------------- */

void links_replace(struct work *w)
{
	size_t old, i, k;

	edges_drop(&w->graph.edges, w);
	links_drop(w, &w->graph.calls);
	links_drop(w, &w->graph.tails);
	for (i = 0; i < w->rounds.worklist_count; i++) {
		struct range_state *s = &w->state[w->rounds.worklist[i]];

		touched_add(w, s);
	}
	chunks_reserve(w);
	old = w->graph.edges.count;
	for (k = 0; k < w->rounds.chunk_count;
	     k++) { /* in order of chunks: the result is the same for any number of threads */
		edges_append(&w->graph.edges, &w->rounds.chunks[k].edges);
		links_append(w, &w->graph.calls, &w->rounds.chunks[k].calls);
		links_append(w, &w->graph.tails, &w->rounds.chunks[k].tails);
	}
	edges_merge(&w->graph.edges, old);
}
