/* SPDX-License-Identifier: MIT */
/*
 * start: what etch does before main, between .preinit_array and the first
 * constructor after its own.  Compiled with -DOBJECTS=4096 (of one site each) or
 * -DOBJECTS=1 (of 16,384 sites).  Prints: ticks, ticks_per_ns, and the
 * counts of etch_info.
 */
#define _GNU_SOURCE
#include "bench.h"
#include "repeat.h"

#include <etch/imv.h>

static uint64_t before, after;

static void note_before(void)
{
	before = bench_tsc();
}
/* Run by ld.so before any constructor (System V gABI, "Initialization and Termination Functions"). */
__attribute__((used, section(".preinit_array"))) static void (*const preinit)(void) = note_before;
__attribute__((constructor(102))) static void note_after(void)
{
	after = bench_tsc();
}

#define DEFINE(n) DEFINE_IMV(int, n) = 1;
#define READ(n) sum += (unsigned)imv_read(n);
#define READ_ONE(n) READ(one)

#if OBJECTS == 4096
#define SITES 4096u
REPEAT4096(DEFINE, x)
static unsigned read_all(void)
{
	unsigned sum = 0;

	REPEAT4096(READ, x)
	return sum;
}
#elif OBJECTS == 1
#define SITES 16384u
DEFINE(one)
/* In four: clang's time is quadratic in the length of a block. */
#define FUNCTION(n)                                                            \
	__attribute__((noinline)) static unsigned read_##n(void)               \
	{                                                                      \
		unsigned sum = 0;                                              \
                                                                               \
		REPEAT4096(READ_ONE, n)                                        \
		return sum;                                                    \
	}
FUNCTION(a)
FUNCTION(b)
FUNCTION(c)
FUNCTION(d)
static unsigned read_all(void)
{
	return read_a() + read_b() + read_c() + read_d();
}
#else
#error "OBJECTS must be 4096 or 1"
#endif

int main(void)
{
	struct etch_info info = {.size = sizeof info};

	etch_info(&info);
	printf("%llu\t%.6f\t%lu\t%lu\t%lu\t%lu\n", (unsigned long long)(after - before), bench_ticks_per_ns(),
	       info.sites, info.armed, info.patched_at_start, info.readonly_pages);
	return read_all() != SITES;
}
