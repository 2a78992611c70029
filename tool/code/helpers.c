/* SPDX-License-Identifier: MIT */
/*
 * Assembly calls what lies in the middle of its own function. Where nothing says where that ends, a
 * call may as well be of the next function: it is where no jump goes past its beginning. (What is fallen
 * into counts for nothing: a call in front of it may not come back.)
 */
#include "code/flow_parts.h"

#include <stdlib.h>

/* A jump from one offset to another: it goes past all that lies between. */
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
		path_add(f, off, (uint64_t)in.imm - f->piece->start);
	for (k = 0; in.flow == FLOW_JUMP_IND && in.number && k < f->jumps[in.number - 1].entries; k++) {
		uint64_t target = jump_table_target(f, &f->jumps[in.number - 1].what, k);

		if (flow_inside(f, target))
			path_add(f, off, target - f->piece->start);
	}
}

/* For each offset, how many jumps go past its beginning. */
static bool paths_make(struct flow *f)
{
	uint64_t size = f->piece->end - f->piece->start, off;
	uint32_t i, count = (uint32_t)f->step_count;

	free(f->paths);
	f->paths = calloc(size + 2, sizeof(*f->paths));
	if (!f->paths) {
		f->failed = true;
		return false;
	}
	for (i = 0; i < count; i++) /* what is decoded on the way is not walked */
		if (f->seen[i] & FLOW_WALKED)
			paths_of(f, i);
	for (off = 1; off <= size; off++)
		f->paths[off] += f->paths[off - 1];
	return true;
}

bool flow_is_helper(struct flow *f, uint64_t target)
{
	if (!f->lenient || !f->piece->open || !f->helpers || !flow_inside(f, target) || (!f->paths && !paths_make(f)))
		return false;
	return f->paths[target - f->piece->start] > 0;
}
