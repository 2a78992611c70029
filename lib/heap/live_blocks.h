/* SPDX-License-Identifier: MIT */
/*
 * live_blocks.h: the blocks that are allocated: address -> size and leaf (live_blocks.c). To be called under the
 * recorder's lock.
 */
#ifndef ETCH_LIB_HEAP_LIVE_BLOCKS_H
#define ETCH_LIB_HEAP_LIVE_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

/* A block that is allocated. */
struct live_block {
	uint64_t size;
	uint32_t leaf;
};

/* Adds a block. Returns false if there is no memory for it. If the address had a block, whose free was not seen,
 * *replaced is set and *was gets that block. */
bool live_add(uint64_t at, const struct live_block *b, struct live_block *was, bool *replaced);
/* Removes a block. False if there is none at this address. */
bool live_remove(uint64_t at, struct live_block *b);
/* Prefetches the slot of the address into the cache. */
void live_prefetch(uint64_t at);
/* Frees the table, in the child of a fork. */
void live_clear(void);

#endif
