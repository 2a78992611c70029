/* SPDX-License-Identifier: MIT */
/*
 * A pool of packed abstract states, which keeps each state once. Most jumps of a file carry one of a few thousand
 * states, so an edge holds a pointer into the pool: equal states have equal pointers, and the states of a million edges
 * take little memory.
 */
#ifndef ANALYSIS_INTERPROC_STATE_POOL_H
#define ANALYSIS_INTERPROC_STATE_POOL_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/flow/state.h"

/* Workers take states at the same time, so the pool is divided into shards by hash, each with a lock of its own. */
#define STATE_SHARDS 16u

struct state_shard {
	pthread_mutex_t lock;
	/* Hash table with open addressing: its size is a power of two, at most half of it is used, and empty slots are
	 * null. */
	const uint8_t **slots;
	size_t slot_count, used;
	struct state_block *blocks; /* the memory that holds the states; only the first block has free space */
};

struct state_pool {
	struct state_shard shard[STATE_SHARDS];
};

void state_pool_open(struct state_pool *p);
void state_pool_free(struct state_pool *p);
/* Returns the packed form of *s in the pool, and adds it if need be. It lives as long as the pool. Equal states give
 * the same pointer. Thread-safe. */
const uint8_t *state_pool_take(struct state_pool *p, const struct state *s);

/* Returns the size in bytes of the packed form of *s. Writes that form to `out` (PACKED_MOST bytes), unless `out` is
 * null. */
size_t state_pack(const struct state *s, uint8_t *out);
void state_unpack(const uint8_t *packed, struct state *out);
#define PACKED_MOST sizeof(struct state)

#endif
