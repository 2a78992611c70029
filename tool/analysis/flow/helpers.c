/* SPDX-License-Identifier: MIT */
/*
 * Tells helpers from functions among call targets inside an open code range: assembly calls local helpers in the
 * middle of its own function, but the target may also be the next function. A target that some jump passes over is
 * a helper. Fall-through edges do not count, since a call in front of the target may be noreturn.
 */
#include "analysis/flow/flow_internal.h"

#include <stdlib.h>

/* Counts a jump between two offsets for every offset that it passes over (as differences; summed by paths_make()). */
static void path_add(struct flow *f, uint64_t from, uint64_t to)
{
	f->paths[from < to ? from + 1 : to + 1]++;
	f->paths[from < to ? to + 1 : from + 1]--;
}

static void paths_of(struct flow *f, uint32_t i)
{
	uint64_t off = f->step_at[i];
	struct step in = f->steps[i];
	unsigned k;

	if ((in.flow == FLOW_JUMP || in.flow == FLOW_BRANCH) && flow_inside(f, (uint64_t)in.imm))
		path_add(f, off, (uint64_t)in.imm - f->range->start);
	for (k = 0; in.flow == FLOW_JUMP_IND && in.number && k < f->jumps[in.number - 1].entries; k++) {
		uint64_t target = jump_table_target(f, &f->jumps[in.number - 1].what, k);

		if (flow_inside(f, target))
			path_add(f, off, target - f->range->start);
	}
}

/* Fills flow.paths: for each offset, the number of jumps that pass over it. False: out of memory. */
static bool paths_make(struct flow *f)
{
	uint64_t size = f->range->end - f->range->start, off;
	uint32_t i, count = (uint32_t)f->step_count;

	free(f->paths);
	f->paths = calloc(size + 2, sizeof(*f->paths));
	if (!f->paths) {
		f->failed = true;
		return false;
	}
	for (i = 0; i < count; i++) /* instructions decoded here are not walked */
		if (f->seen[i] & FLOW_WALKED)
			paths_of(f, i);
	for (off = 1; off <= size; off++)
		f->paths[off] += f->paths[off - 1];
	return true;
}

bool flow_is_helper(struct flow *f, uint64_t target)
{
	if (!f->relaxed || !f->range->open || !f->helpers || !flow_inside(f, target) || (!f->paths && !paths_make(f)))
		return false;
	return f->paths[target - f->range->start] > 0;
}
