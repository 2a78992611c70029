/* SPDX-License-Identifier: MIT */
/*
 * A worklist: the nodes of a graph that are still to be visited, each of them in the list at most once. Nodes are
 * numbers, such as those of basic blocks. The next node is the one that was added last, or, where nodes are added with
 * a rank, the one of the lowest rank; each list must be used in only one of these ways. Not thread-safe.
 */
#ifndef ANALYSIS_DATAFLOW_WORKLIST_H
#define ANALYSIS_DATAFLOW_WORKLIST_H

#include "support/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A list that is all zero is empty. Free it by worklist_free(). */
struct worklist {
	uint64_t *items; /* rank << 32 | node: a binary heap, or a stack if the ranks are 0 */
	size_t count, capacity;
	bool *queued; /* per node: it is in the list */
	size_t nodes; /* number of elements of `queued`; nodes with higher numbers are not in the list */
};

/* Is a node in the list? */
static inline bool worklist_has(const struct worklist *l, uint32_t node) { return node < l->nodes && l->queued[node]; }

/* Grows `queued` so that it has the node. */
void worklist_widen(struct worklist *l, uint32_t node);

/* Sets the node's element of `queued`. Returns false if the node is in the list already. */
static inline bool worklist_mark(struct worklist *l, uint32_t node)
{
	if (node >= l->nodes)
		worklist_widen(l, node);
	if (l->queued[node])
		return false;
	return l->queued[node] = true;
}

/* worklist_push() and worklist_push_ranked() add a node, unless it is in the list already. */
static inline void worklist_push(struct worklist *l, uint32_t node)
{
	if (!worklist_mark(l, node))
		return;
	mem_reserve(&l->items, &l->capacity, l->count, sizeof(*l->items));
	l->items[l->count++] = node;
}
void worklist_push_ranked(struct worklist *l, uint32_t node, uint32_t rank);

/* worklist_pop() and worklist_pop_ranked() remove the next node from a list that is not empty, and return it. */
static inline uint32_t worklist_pop(struct worklist *l)
{
	uint32_t node = (uint32_t)l->items[--l->count];

	l->queued[node] = false;
	return node;
}
uint32_t worklist_pop_ranked(struct worklist *l);

/* Removes all nodes, but keeps the memory. */
void worklist_clear(struct worklist *l);
void worklist_free(struct worklist *l);

#endif
