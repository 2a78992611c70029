/* SPDX-License-Identifier: MIT */
/*
 * live_blocks.h: the blocks that are allocated: address -> size and leaf (live_blocks.c). Under the recorder's lock.
 */
#ifndef ETCH_LIB_HEAP_LIVE_BLOCKS_H
#define ETCH_LIB_HEAP_LIVE_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

struct live_block {
	uint64_t size;
	uint32_t leaf;
};

/* Adds a block. False: no memory for it. True with *was, if the address had one: its free was not seen. */
bool live_add(uint64_t at, const struct live_block *b, struct live_block *was, bool *replaced);
/* Takes a block out. False: there is none at this address. */
bool live_remove(uint64_t at, struct live_block *b);
/* Starts the load of the address's place into the cache. */
void live_prefetch(uint64_t at);
/* Frees the table: in the child of a fork. */
void live_clear(void);

#endif
