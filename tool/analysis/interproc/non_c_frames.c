/* SPDX-License-Identifier: MIT */
/*
 * After the fixpoint: code that is connected by jumps, in either direction, to code without C's frames has no such
 * frames either. Union-find gives the sets of code ranges that jumps connect.
 */
#include "analysis/interproc/work.h"
#include "analysis/interproc/other_frames.h"
#include "support/memory.h"

/* Returns the representative of a set of code ranges that jumps connect, which share non_c_frame. Union-find with path
 * halving. */
static uint32_t set_of(uint32_t *in, uint32_t i)
{
	while (in[i] != i)
		i = in[i] = in[in[i]];
	return i;
}

static void non_c_frames_join(const struct work *w, uint32_t *in, uint32_t from, uint32_t to)
{
	const struct code_range *a = &w->ranges.list[from], *b = &w->ranges.list[to];

	if (a->fde < 0 && b->fde < 0 && !a->plt && !b->plt)
		in[set_of(in, from)] = set_of(in, to);
}

/* Joins along the edges: a jump into the middle of a code range that has been cut there since is an edge, not a
 * link. */
static void non_c_edges(const struct work *w, uint32_t *in)
{
	uint32_t k = 0;
	size_t i;

	for (i = 0; i < w->graph.edges.count; i++) {
		while (k + 1 < w->ranges.count && w->ranges.list[k + 1].start <= w->graph.edges.list[i].target)
			k++;
		if (w->ranges.list[k].start <= w->graph.edges.list[i].target &&
		    w->graph.edges.list[i].target < w->ranges.list[k].end)
			non_c_frames_join(w, in, w->graph.edges.list[i].from, k);
	}
}

void non_c_frames_spread(struct work *w)
{
	uint32_t *in = mem_alloc(w->ranges.count, sizeof(*in));
	bool *non_c_frame = mem_zero(w->ranges.count, sizeof(*non_c_frame)); /* by representative */
	size_t i;

	for (i = 0; i < w->ranges.count; i++)
		in[i] = (uint32_t)i;
	for (i = 0; i < w->graph.tails.count; i++)
		if (w->graph.tails.list[i].to != NO_RANGE)
			non_c_frames_join(w, in, w->graph.place[w->graph.tails.list[i].from],
			                  w->graph.place[w->graph.tails.list[i].to]);
	if (w->env.own_stack)
		non_c_edges(w, in);
	for (i = 0; i < w->ranges.count; i++)
		non_c_frame[set_of(in, (uint32_t)i)] |= w->state[i].non_c_frame;
	for (i = 0; i < w->ranges.count; i++)
		w->state[i].non_c_frame = non_c_frame[set_of(in, (uint32_t)i)];
	free(in);
	free(non_c_frame);
}
