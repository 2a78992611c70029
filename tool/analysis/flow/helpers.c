/* SPDX-License-Identifier: MIT */
/*
 * Which call targets inside an open code range are local helpers, as assembly has them in the middle of a function, and
 * which begin the next function? A target that some jump passes over is a helper. Falling through into one shows
 * nothing, since a call in front of it may be noreturn.
 */
#include "analysis/flow/flow_internal.h"
#include "support/memory.h"

#include <stdlib.h>

/* Counts a jump between two offsets at every offset that it passes over: as differences, which paths_make() sums. */
static void path_add(struct flow *f, uint64_t from, uint64_t to)
{
	f->walk.paths[from < to ? from + 1 : to + 1]++;
	f->walk.paths[from < to ? to + 1 : from + 1]--;
}

/* Counts the jumps inside the code range that step i makes. */
static void paths_of(struct flow *f, uint32_t i)
{
	uint64_t off = f->step_at[i];
	struct step in = f->steps[i];
	unsigned k;

	if ((in.flow == FLOW_JUMP || in.flow == FLOW_BRANCH) && flow_inside(f, (uint64_t)in.imm))
		path_add(f, off, (uint64_t)in.imm - f->in.range->start);
	for (k = 0; in.flow == FLOW_JUMP_IND && in.number && k < f->jumps[in.number - 1].entries; k++) {
		uint64_t target = jump_table_target(f, &f->jumps[in.number - 1].what, k);

		if (flow_inside(f, target))
			path_add(f, off, target - f->in.range->start);
	}
}

/* Fills flow.walk.paths: for each offset, the number of jumps that pass over it. */
static void paths_make(struct flow *f)
{
	uint64_t size = f->in.range->end - f->in.range->start, off;
	uint32_t i, count = (uint32_t)f->step_count;

	free(f->walk.paths);
	f->walk.paths = mem_zero(size + 2, sizeof(*f->walk.paths));
	for (i = 0; i < count; i++) /* skips instructions that are decoded here but not walked */
		if (f->seen[i] & FLOW_WALKED)
			paths_of(f, i);
	for (off = 1; off <= size; off++)
		f->walk.paths[off] += f->walk.paths[off - 1];
}

bool flow_is_helper(struct flow *f, uint64_t target)
{
	if (!f->in.relaxed || !f->in.range->open || !f->walk.has_helpers || !flow_inside(f, target))
		return false;
	if (!f->walk.paths)
		paths_make(f);
	return f->walk.paths[target - f->in.range->start] > 0;
}
