/* SPDX-License-Identifier: MIT */
/* Packs abstract states, and keeps each packed state once (state_pool.h). */
#include "analysis/interproc/state_pool.h"

#include "support/memory.h"

#include <string.h>
#include <xxhash.h>

/*
 * The head of a packed state. After it come those registers that are not all zero (bit r of `registers` is set for
 * register r), then `slot_count` stack slots.
 */
struct packed {
	uint32_t align;
	uint16_t known, registers;
	uint8_t weak, dead, slot_count, frame;
};

size_t state_pack(const struct state *s, uint8_t *out)
{
	static const struct value none;
	struct packed p = {s->align, s->known, 0, s->weak, s->dead, s->slot_count, s->frame};
	size_t at = sizeof(p);
	unsigned r;

	for (r = 0; r < 16; r++)
		if (memcmp(&s->reg[r], &none, sizeof(none))) {
			p.registers |= (uint16_t)(1u << r);
			if (out)
				memcpy(out + at, &s->reg[r], sizeof(none));
			at += sizeof(none);
		}
	if (out) {
		memcpy(out + at, s->slot, s->slot_count * sizeof(s->slot[0]));
		memcpy(out, &p, sizeof(p));
	}
	return at + s->slot_count * sizeof(s->slot[0]);
}

void state_unpack(const uint8_t *packed, struct state *out)
{
	const uint8_t *at = packed + sizeof(struct packed);
	struct packed p;
	unsigned r;

	memcpy(&p, packed, sizeof(p));
	memset(out, 0, offsetof(struct state, slot));
	out->align = p.align;
	out->known = p.known;
	out->weak = p.weak;
	out->dead = p.dead;
	out->slot_count = p.slot_count;
	out->frame = p.frame;
	out->constants = EFFECT_CONSTANT;
	out->lowest = INT32_MIN; /* packed states do not contain this member */
	for (r = 0; r < 16; r++)
		if (p.registers >> r & 1) {
			memcpy(&out->reg[r], at, sizeof(out->reg[r]));
			at += sizeof(out->reg[r]);
		}
	memcpy(out->slot, at, p.slot_count * sizeof(out->slot[0]));
}

static size_t packed_size(const uint8_t *packed)
{
	struct packed p;

	memcpy(&p, packed, sizeof(p));
	return sizeof(p) + (size_t)__builtin_popcount(p.registers) * sizeof(struct value) +
	       p.slot_count * sizeof(struct slot);
}

#define BLOCK_SIZE ((size_t)16 << 10)

/* Memory for packed states: a list of blocks. */
struct state_block {
	struct state_block *next;
	size_t used;
	uint8_t bytes[];
};

void state_pool_open(struct state_pool *p)
{
	unsigned i;

	memset(p, 0, sizeof(*p));
	for (i = 0; i < STATE_SHARDS; i++)
		pthread_mutex_init(&p->shard[i].lock, NULL);
}

void state_pool_free(struct state_pool *p)
{
	unsigned i;

	for (i = 0; i < STATE_SHARDS; i++) {
		struct state_shard *s = &p->shard[i];

		while (s->blocks) {
			struct state_block *b = s->blocks;

			s->blocks = b->next;
			free(b);
		}
		free(s->slots);
		s->slots = NULL;
		s->slot_count = s->used = 0;
	}
}

/* Returns the slot that holds an equal packed state, or the empty slot for it. If the heads are equal, so are the
 * sizes. */
static const uint8_t **slot_find(const struct state_shard *s, const uint8_t *packed, size_t size, uint64_t hash)
{
	size_t i = hash & (s->slot_count - 1);

	while (s->slots[i] && (memcmp(s->slots[i], packed, sizeof(struct packed)) || memcmp(s->slots[i], packed, size)))
		i = (i + 1) & (s->slot_count - 1);
	return &s->slots[i];
}

/* The highest four bits of the hash select the shard, the lowest bits the slot. */
static struct state_shard *shard_of(struct state_pool *p, uint64_t hash) { return &p->shard[hash >> 60]; }
_Static_assert(STATE_SHARDS == 16, "shard_of() takes four bits");

static void slots_grow(struct state_shard *s)
{
	size_t was = s->slot_count, i;
	const uint8_t **old = s->slots;

	s->slot_count = was ? 2 * was : 64;
	s->slots = mem_zero(s->slot_count, sizeof(*s->slots));
	for (i = 0; i < was; i++)
		if (old[i]) {
			size_t size = packed_size(old[i]);

			*slot_find(s, old[i], size, XXH3_64bits(old[i], size)) = old[i];
		}
	free(old);
}

static uint8_t *block_take(struct state_shard *s, size_t size)
{
	struct state_block *b = s->blocks;

	if (!b || BLOCK_SIZE - b->used < size) {
		b = mem_alloc(sizeof(*b) + BLOCK_SIZE, 1);
		b->next = s->blocks;
		b->used = 0;
		s->blocks = b;
	}
	b->used += size;
	return b->bytes + b->used - size;
}

const uint8_t *state_pool_take(struct state_pool *p, const struct state *s)
{
	uint8_t packed[PACKED_MOST];
	size_t size = state_pack(s, packed);
	uint64_t hash = XXH3_64bits(packed, size);
	struct state_shard *shard = shard_of(p, hash);
	const uint8_t **slot;

	pthread_mutex_lock(&shard->lock);
	if (2 * shard->used >= shard->slot_count)
		slots_grow(shard);
	slot = slot_find(shard, packed, size, hash);
	if (!*slot) {
		*slot = memcpy(block_take(shard, size), packed, size);
		shard->used++;
	}
	pthread_mutex_unlock(&shard->lock);
	return *slot;
}
