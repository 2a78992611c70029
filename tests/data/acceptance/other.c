// SPDX-License-Identifier: MIT
/* The second file of the acceptance program: reads what app.c defines, defines
 * one of its own, and has code that gcc moves to .text.unlikely. */
#include "app.h"

#include <stdio.h>
#include <stdlib.h>

ETCHED static struct { int x, y; } point = {1, 2};
extern unsigned hidden __attribute__((visibility("hidden")));

/* Never run, but laid out apart, with sites in it. */
__attribute__((noinline, cold)) static long failure(long n)
{
	fprintf(stderr, "level %d\n", cfg.level);
	return n / cfg.table[3] + point.y;
}

long other_work(long n)
{
	long sum = cfg.level * n + cfg.table[5];

	if (__builtin_expect(n == 123456, 0))
		sum += failure(n) + (long)hidden;
	switch (point.x & 3) {
	case 0: sum += 5; break;
	case 1: sum *= 2; break;
	case 2: sum -= point.y; break;
	default: sum ^= 0x55;
	}
	return sum + (long)(cfg.limit >> 8) + (long)(((unsigned long)cfg.pair.y << 32) | cfg.pair.x) + imv_read(verbose);
}

__attribute__((cold)) long cold_work(long n)
{
	return n < 0 ? failure(n) : (long)(cfg.pair.x * (unsigned long)n + hidden) + (long)imv_read(quota);
}

int other_set(int round)
{
	struct { unsigned x, y; } pair = {(unsigned)round, 1u << round};

	if (etch_set(&point.x, round) || etch_set(&point.y, -round))
		return 1;
	return etch_set_bytes(ETCH_ADDR(cfg.pair), &pair, sizeof(pair));
}
