/* SPDX-License-Identifier: MIT */
/* The functions of the worklist that are not inline: adding and removing nodes with a rank, by a binary heap, and
 * growing `queued`. */
#include "analysis/dataflow/worklist.h"
#include "support/memory.h"

#include <string.h>

void worklist_widen(struct worklist *l, uint32_t node)
{
	size_t nodes = node + (size_t)node / 2 + 64;

	l->queued = mem_resize(l->queued, nodes, sizeof(*l->queued));
	memset(l->queued + l->nodes, 0, (nodes - l->nodes) * sizeof(*l->queued));
	l->nodes = nodes;
}

void worklist_push_ranked(struct worklist *l, uint32_t node, uint32_t rank)
{
	uint64_t item = (uint64_t)rank << 32 | node;
	size_t i, up;

	if (!worklist_mark(l, node))
		return;
	mem_reserve(&l->items, &l->capacity, l->count, sizeof(*l->items));
	for (i = l->count++; i && l->items[up = (i - 1) / 2] > item; i = up)
		l->items[i] = l->items[up];
	l->items[i] = item;
}

uint32_t worklist_pop_ranked(struct worklist *l)
{
	uint64_t top = l->items[0], last = l->items[--l->count];
	size_t i = 0, down;

	while ((down = 2 * i + 1) < l->count) {
		down += down + 1 < l->count && l->items[down + 1] < l->items[down];
		if (l->items[down] >= last)
			break;
		l->items[i] = l->items[down];
		i = down;
	}
	if (l->count)
		l->items[i] = last;
	l->queued[(uint32_t)top] = false;
	return (uint32_t)top;
}

void worklist_clear(struct worklist *l)
{
	while (l->count)
		l->queued[(uint32_t)l->items[--l->count]] = false;
}

void worklist_free(struct worklist *l)
{
	free(l->items);
	free(l->queued);
	memset(l, 0, sizeof(*l));
}
