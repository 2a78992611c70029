/* SPDX-License-Identifier: MIT */
/* A hash table of element numbers (hash_index.h). */
#include "support/hash_index.h"
#include "support/memory.h"

#define SIZE_FIRST 64u
#define SIZE_KEPT  256u /* a larger table is freed rather than cleared: few lists are that long */

static void put(struct hash_index *x, uint64_t slot)
{
	size_t at = slot >> 32;

	while (x->slots[at & (x->size - 1)])
		at++;
	x->slots[at & (x->size - 1)] = slot;
}

static void grow(struct hash_index *x)
{
	struct hash_index more = {.size = x->size ? 2 * x->size : SIZE_FIRST, .count = x->count};
	size_t i;

	more.slots = mem_zero(more.size, sizeof(*more.slots));
	for (i = 0; i < x->size; i++)
		if (x->slots[i])
			put(&more, x->slots[i]);
	free(x->slots);
	*x = more;
}

void hash_index_add(struct hash_index *x, uint32_t hash, uint32_t number)
{
	if (2 * ++x->count > x->size)
		grow(x);
	put(x, (uint64_t)hash << 32 | (number + 1));
}

void hash_index_clear(struct hash_index *x)
{
	if (x->size > SIZE_KEPT)
		hash_index_free(x);
	else if (x->count)
		memset(x->slots, 0, x->size * sizeof(*x->slots));
	x->count = 0;
}

void hash_index_free(struct hash_index *x)
{
	free(x->slots);
	*x = (struct hash_index){0};
}
