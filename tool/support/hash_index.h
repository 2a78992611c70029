/* SPDX-License-Identifier: MIT */
/*
 * Finds the element of an array that has a key: a hash table of the indices of the elements. The caller owns the array
 * and its keys, and computes their hash:
 *
 *     for (at = hash; (i = hash_index_next(&x, hash, &at)) != HASH_INDEX_NONE;)
 *         if (list[i].key == key)
 *             return i;
 *     hash_index_add(&x, hash, count);
 */
#ifndef SUPPORT_HASH_INDEX_H
#define SUPPORT_HASH_INDEX_H

#include <stddef.h>
#include <stdint.h>

#define HASH_INDEX_NONE UINT32_MAX

/* A zeroed structure is an empty index. */
struct hash_index {
	uint64_t *slots; /* open addressing, at most half full: hash << 32 | number + 1; 0: free */
	size_t size;     /* a power of two, or 0 */
	size_t count;
};

/* Returns the number of the next element with this hash, or HASH_INDEX_NONE if there is none. The caller initialises
 * *at with the hash. */
static inline uint32_t hash_index_next(const struct hash_index *x, uint32_t hash, size_t *at)
{
	uint64_t slot;

	while (x->size && (slot = x->slots[(*at)++ & (x->size - 1)]))
		if (slot >> 32 == hash)
			return (uint32_t)slot - 1;
	return HASH_INDEX_NONE;
}

void hash_index_add(struct hash_index *x, uint32_t hash, uint32_t number);
/* Removes all elements. */
void hash_index_clear(struct hash_index *x);
void hash_index_free(struct hash_index *x);

static inline uint32_t hash_word(uint64_t word) { return (uint32_t)(word * 0x9e3779b97f4a7c15u >> 32); }

#endif
