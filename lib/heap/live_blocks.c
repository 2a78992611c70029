/* SPDX-License-Identifier: MIT */
/*
 * live_blocks.c: a hash table with linear probing (Knuth 6.4, algorithms L and R), at most five eighths full. Blocks
 * that are neighbours in memory are neighbours in the table, so that blocks that are freed together share cache lines
 * and pages.
 */
#include "heap/live_blocks.h"

#include "heap/recording.h"

#define SLOTS_FIRST 4096u
/* A slot stands for 16 bytes of the heap; a group of slots stands for 256 bytes. */
#define UNIT_BITS  4
#define GROUP_BITS 4

/*
 * Two words: address / 8 (44 bits) and the upper 20 bits of the leaf; size (52 bits) and the lower 12 bits of the
 * leaf. The slot is free if the address is 0.
 */
struct slot {
	uint64_t a, b;
};

static struct {
	struct slot *slots;
	uint64_t count, mask;
	unsigned shift; /* shift for the hash of a group */
} live;

#define LEAF_LOW_BITS  12
#define LEAF_HIGH_BITS 20

static uint64_t slot_address(const struct slot *s) { return s->a >> LEAF_HIGH_BITS << 3; }

static inline uint64_t place(uint64_t at)
{
	uint64_t unit = at >> UNIT_BITS, group = unit >> GROUP_BITS;

	return (group * 0x9e3779b97f4a7c15u >> live.shift << GROUP_BITS | (unit & ((1u << GROUP_BITS) - 1))) & live.mask;
}

static void block_of(const struct slot *s, struct live_block *b)
{
	b->size = s->b >> LEAF_LOW_BITS;
	b->leaf = (uint32_t)((s->a & ((1u << LEAF_HIGH_BITS) - 1)) << LEAF_LOW_BITS | (s->b & ((1u << LEAF_LOW_BITS) - 1)));
}

static bool grow(void)
{
	uint64_t count = live.slots ? 2 * (live.mask + 1) : SLOTS_FIRST, old = live.slots ? live.mask + 1 : 0;
	struct slot *slots = recorder_map(count * sizeof(*slots)), *was = live.slots;

	if (!slots)
		return false;
	live.slots = slots;
	live.mask = count - 1;
	live.shift = 64u - (unsigned)__builtin_ctzll(count) + GROUP_BITS;
	for (uint64_t i = 0; i < old; i++) {
		uint64_t at;

		if (!was[i].a)
			continue;
		for (at = place(slot_address(&was[i])); slots[at].a; at = (at + 1) & live.mask)
			;
		slots[at] = was[i];
	}
	recorder_unmap(was, old * sizeof(*was));
	return true;
}

bool live_add(uint64_t at, const struct live_block *b, struct live_block *was, bool *replaced)
{
	struct slot *s;

	*replaced = false;
	if (!live.slots || live.count >= (live.mask + 1) / 8 * 5) {
		/* At least one slot stays free, so that searches end. */
		if (!grow() && (!live.slots || live.count >= live.mask))
			return false;
	}
	for (uint64_t i = place(at);; i = (i + 1) & live.mask) {
		s = &live.slots[i];
		if (!s->a)
			break;
		if (slot_address(s) == at) {
			block_of(s, was);
			*replaced = true;
			live.count--;
			break;
		}
	}
	s->a = at >> 3 << LEAF_HIGH_BITS | b->leaf >> LEAF_LOW_BITS;
	s->b = b->size << LEAF_LOW_BITS | (b->leaf & ((1u << LEAF_LOW_BITS) - 1));
	live.count++;
	return true;
}

/* Closes the gap that a removal leaves. */
static void gap_close(uint64_t gap)
{
	for (uint64_t i = (gap + 1) & live.mask; live.slots[i].a; i = (i + 1) & live.mask) {
		uint64_t home = place(slot_address(&live.slots[i]));

		/* `home` is the slot at which the search for the entry in slot i begins. If it lies after the gap, the entry
		 * stays, because the search never reaches the gap. */
		if (((i - home) & live.mask) < ((i - gap) & live.mask))
			continue;
		live.slots[gap] = live.slots[i];
		gap = i;
	}
	live.slots[gap].a = 0;
}

bool live_remove(uint64_t at, struct live_block *b)
{
	if (!live.slots)
		return false;
	for (uint64_t i = place(at); live.slots[i].a; i = (i + 1) & live.mask) {
		if (slot_address(&live.slots[i]) != at)
			continue;
		block_of(&live.slots[i], b);
		gap_close(i);
		live.count--;
		return true;
	}
	return false;
}

void live_prefetch(uint64_t at)
{
	struct slot *slots = __atomic_load_n(&live.slots, __ATOMIC_RELAXED);

	/* Another thread may be about to replace the table, but a prefetch does not fault. */
	if (slots)
		__builtin_prefetch(&slots[place(at)], 1);
}

void live_clear(void)
{
	recorder_unmap(live.slots, live.slots ? (live.mask + 1) * sizeof(*live.slots) : 0);
	live.slots = NULL;
	live.count = live.mask = 0;
}
