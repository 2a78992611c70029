/* SPDX-License-Identifier: MIT */
/* Looks up the code range that contains an address, by binary search within a 256-byte block of an index. */
#include "analysis/flow/flow.h"
#include "support/memory.h"
#include "shared/search.h"

#include <stdlib.h>

#define INDEX_SHIFT 8u

/* Returns the code range that contains the address index_base + at, or null. Searches `spans`, of which more elements
 * fit in a cache line than of the code ranges. */
static const struct code_range *range_in_index(const struct flow_env *env, uint32_t at)
{
	size_t lo = env->index[at >> INDEX_SHIFT], hi = env->index[(at >> INDEX_SHIFT) + 1] + 1u;

	if (hi > env->range_count)
		hi = env->range_count;
	lo = SEARCH_IN(lo, hi, i, env->spans[i].end <= at); /* few code ranges begin in one block */
	return lo < env->range_count && env->spans[lo].start <= at && at < env->spans[lo].end ? &env->ranges[lo] : NULL;
}

const struct code_range *range_at(const struct flow_env *env, uint64_t addr)
{
	size_t lo;

	if (env->index)
		return addr - env->index_base < env->index_span ? range_in_index(env, (uint32_t)(addr - env->index_base))
		                                                : NULL;
	lo = SEARCH(env->range_count, i, env->ranges[i].end <= addr);
	return lo < env->range_count && env->ranges[lo].start <= addr && addr < env->ranges[lo].end ? &env->ranges[lo]
	                                                                                            : NULL;
}

uint32_t range_number(const struct flow_env *env, uint64_t addr)
{
	const struct code_range *p = addr & (FLOW_EXTERN | FLOW_SLOT) ? NULL : range_at(env, addr);

	return p ? (uint32_t)(p - env->ranges) : NO_RANGE;
}

void ranges_index_free(struct flow_env *env)
{
	free(env->index);
	free(env->spans);
	env->index = NULL;
	env->spans = NULL;
	env->index_span = 0;
}

void ranges_index(struct flow_env *env)
{
	size_t n, i, k = 0;

	ranges_index_free(env);
	if (!env->range_count)
		return;
	env->index_base = env->ranges[0].start;
	env->index_span = env->ranges[env->range_count - 1].end - env->index_base;
	n = (env->index_span >> INDEX_SHIFT) + 2;
	if (n > 64 * env->range_count + 4096) { /* sparse code: the list of ranges is searched */
		env->index_span = 0;
		return;
	}
	if (env->index_span > UINT32_MAX)
		return;
	env->index = mem_alloc(n, sizeof(*env->index));
	env->spans = mem_alloc(env->range_count, sizeof(*env->spans));
	for (i = 0; i < env->range_count; i++)
		env->spans[i] = (struct range_span){(uint32_t)(env->ranges[i].start - env->index_base),
		                                    (uint32_t)(env->ranges[i].end - env->index_base)};
	for (i = 0; i < n; i++) { /* index[i]: the first code range that ends after the start of block i */
		while (k < env->range_count && env->spans[k].end <= (uint64_t)i << INDEX_SHIFT)
			k++;
		env->index[i] = (uint32_t)k;
	}
}

void range_index_extend(struct flow_env *env, size_t i, uint64_t was)
{
	uint64_t at;

	if (!env->index || i + 1 == env->range_count) {
		ranges_index(env);
		return;
	}
	env->spans[i].end = (uint32_t)(env->ranges[i].end - env->index_base);
	/* For the blocks that begin in the added bytes, range i is now the first range that ends after their start, instead
	 * of the next one. */
	for (at = (was - env->index_base + (1u << INDEX_SHIFT) - 1) >> INDEX_SHIFT; at << INDEX_SHIFT < env->spans[i].end;
	     at++)
		env->index[at] = (uint32_t)i;
}
