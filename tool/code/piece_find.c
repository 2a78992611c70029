/* SPDX-License-Identifier: MIT */
/* From an address to the piece that holds it. */
#include "code/flow.h"
#include "elf/search.h"

#include <stdlib.h>

#define INDEX_SHIFT 8u

/* The first piece that ends behind an address: by what is near in memory, not by the pieces themselves. */
static const struct piece *piece_in_index(const struct flow_env *env, uint32_t at)
{
	size_t lo = env->index[at >> INDEX_SHIFT], hi = env->index[(at >> INDEX_SHIFT) + 1] + 1u;

	if (hi > env->piece_count)
		hi = env->piece_count;
	while (lo < hi) { /* nearly always the one, or one of a few */
		size_t mid = lo + (hi - lo) / 2;

		if (env->spans[mid].end <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < env->piece_count && env->spans[lo].start <= at && at < env->spans[lo].end ? &env->pieces[lo] : NULL;
}

const struct piece *piece_at(const struct flow_env *env, uint64_t addr)
{
	size_t lo;

	if (env->index)
		return addr - env->index_base < env->index_span ? piece_in_index(env, (uint32_t)(addr - env->index_base)) : NULL;
	lo = SEARCH(env->piece_count, i, env->pieces[i].end <= addr);
	return lo < env->piece_count && env->pieces[lo].start <= addr && addr < env->pieces[lo].end ? &env->pieces[lo]
	                                                                                             : NULL;
}

uint32_t piece_number(const struct flow_env *env, uint64_t addr)
{
	const struct piece *p = addr & (FLOW_EXTERN | FLOW_SLOT) ? NULL : piece_at(env, addr);

	return p ? (uint32_t)(p - env->pieces) : NO_PIECE;
}

void pieces_index_free(struct flow_env *env)
{
	free(env->index);
	free(env->spans);
	env->index = NULL;
	env->spans = NULL;
	env->index_span = 0;
}

bool pieces_index(struct flow_env *env)
{
	size_t n, i, k = 0;

	pieces_index_free(env);
	if (!env->piece_count)
		return true;
	env->index_base = env->pieces[0].start;
	env->index_span = env->pieces[env->piece_count - 1].end - env->index_base;
	n = (env->index_span >> INDEX_SHIFT) + 2;
	if (n > 64 * env->piece_count + 4096) { /* far apart: a search will do */
		env->index_span = 0;
		return true;
	}
	if (env->index_span > UINT32_MAX)
		return true;
	env->index = malloc(n * sizeof(*env->index));
	env->spans = malloc(env->piece_count * sizeof(*env->spans));
	if (!env->index || !env->spans)
		return false;
	for (i = 0; i < env->piece_count; i++)
		env->spans[i] = (struct piece_span){(uint32_t)(env->pieces[i].start - env->index_base),
		                                    (uint32_t)(env->pieces[i].end - env->index_base)};
	for (i = 0; i < n; i++) { /* the first piece that ends behind the start of the block */
		while (k < env->piece_count && env->spans[k].end <= (uint64_t)i << INDEX_SHIFT)
			k++;
		env->index[i] = (uint32_t)k;
	}
	return true;
}
