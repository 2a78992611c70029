/* SPDX-License-Identifier: MIT */
/* The worklist of flow_walk(): a heap of block leaders, lowest offset first, since most edges go forward. */
#include "analysis/flow/flow_internal.h"
#include "support/vector.h"

static void heap_push(struct flow *f, uint32_t off)
{
	size_t i, up;

	if (!room_make(&f->walk.heap, &f->walk.heap_room, f->walk.heap_count, sizeof(*f->walk.heap))) {
		f->failed = true;
		return;
	}
	for (i = f->walk.heap_count++; i && f->walk.heap[up = (i - 1) / 2] > off; i = up)
		f->walk.heap[i] = f->walk.heap[up];
	f->walk.heap[i] = off;
}

uint32_t flow_queue_next(struct flow *f)
{
	uint32_t top = f->walk.heap[0], last = f->walk.heap[--f->walk.heap_count];
	size_t i = 0, down;

	while ((down = 2 * i + 1) < f->walk.heap_count) {
		down += down + 1 < f->walk.heap_count && f->walk.heap[down + 1] < f->walk.heap[down];
		if (f->walk.heap[down] >= last)
			break;
		f->walk.heap[i] = f->walk.heap[down];
		i = down;
	}
	if (f->walk.heap_count)
		f->walk.heap[i] = last;
	return top;
}

void flow_queue(struct flow *f, uint32_t state)
{
	if (f->state_live[state] & QUEUED)
		return;
	f->state_live[state] |= QUEUED;
	heap_push(f, f->step_at[f->step_of_state[state]]);
}
