/* SPDX-License-Identifier: MIT */
/*
 * stress.h: the model that stress.c and its plugin share: variables whose value
 * is a function of how often they were set, so that one look tells a torn value,
 * a stale one, and one that was never set.
 */
#ifndef TEST_STRESS_H
#define TEST_STRESS_H

#include <stdatomic.h>
#include <stdint.h>

enum variable { U8, U16, U32, U64, PAIR_A, PAIR_B, S8, S16, S32, S64, CELL8, CELL16, CELL32, CELL64, SHARED, VARIABLES };

/* A variable's sets: begun, and returned. One writer. */
struct state {
	_Atomic uint64_t begun __attribute__((aligned(64)));
	_Atomic uint64_t done;
};
extern struct state state[VARIABLES];

static inline unsigned variable_size(enum variable k)
{
	static const uint8_t size[VARIABLES] = {1, 2, 4, 8, 4, 4, 1, 2, 4, 8, 1, 2, 4, 8, 4};

	return size[k];
}

static inline uint64_t size_mask(unsigned size) { return size == 8 ? ~0ul : (1ul << (8 * size)) - 1; }

/* The value after `n` sets: its low byte counts, every other byte repeats it. Of
 * 64-bit ones a third fits no immediate, a third is sign-, a third zero-extended. */
static inline uint64_t value_of(uint64_t n, unsigned size)
{
	uint64_t v = (n & 0xff) * 0x0101010101010101;

	if (size == 8 && n % 3 == 1)
		v = (uint64_t)(int64_t)(int32_t)v;
	if (size == 8 && n % 3 == 2)
		v = (uint32_t)v;
	return v & size_mask(size);
}

/* Is v what a read may give that began when `done` sets had returned, and ended
 * when `begun` had begun? 1 = yes, 0 = no, -1 = too many sets in between to say. */
static inline int value_ok(uint64_t v, unsigned size, uint64_t done, uint64_t begun)
{
	uint64_t n = done + (uint8_t)((uint8_t)v - (uint8_t)done);

	if (begun - done >= 256)
		return -1;
	return n <= begun && v == value_of(n, size);
}

/* One read of a variable, checked. */
static inline int read_ok(enum variable k, uint64_t (*read)(void))
{
	uint64_t done = atomic_load(&state[k].done), v = read();

	return value_ok(v, variable_size(k), done, atomic_load(&state[k].begun));
}

#endif
