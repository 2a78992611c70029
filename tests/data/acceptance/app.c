// SPDX-License-Identifier: MIT
/*
 * A program of two files with every kind of etched object: exported, hidden,
 * static, shared, DEFINE_IMV, one that is stored to plainly and synced, one that
 * nothing reads. Prints what it reads between sets; the output depends on nothing
 * but these values.
 */
#include "app.h"

#include <stdio.h>
#include <string.h>

ETCHED struct config cfg = {3, 8080, -2, 1, 0x123456789aul, "etch", {5, 6}, {1, 2, 3, 4, 5, 6, 7, 8}};
ETCHED static struct { long a, b; unsigned char c; } local = {10, -20, 30};
ETCHED static int late; /* stored to before etch_sync */
ETCHED __attribute__((visibility("hidden"))) unsigned hidden = 77;
ETCHED_SHARED short small = -5;
ETCHED_SHARED static unsigned char tiny = 200;
DEFINE_IMV(int, verbose) = 1;
DEFINE_IMV(unsigned long, quota) = 1000;
static DEFINE_IMV(signed char, sign) = -1;

static void *(*hook)(void *, int, size_t) = memset; /* a relocation in data beside ours */

__attribute__((noinline)) static long local_work(long n)
{
	long sum = n;

	for (int i = 0; i < local.c % 7; i++)
		sum = sum * 3 + local.a;
	if (local.b < 0)
		sum ^= local.b;
	return sum + small + tiny + hidden;
}

__attribute__((noinline)) static int setup(int n)
{
	late = n * 2;
	return etch_sync(&late, sizeof(late));
}

/* Removed by --gc-sections, with its sites. */
__attribute__((noinline, used)) static long unused_work(void) { return cfg.level + local.a; }
__attribute__((noinline)) long dead_work(long n) { return n * cfg.pair.y + imv_read(quota); }

static long round_work(long n)
{
	long sum = local_work(n) + other_work(n) + late;

	if (etch_unlikely(imv_read(verbose)))
		sum += 1;
	sum += (long)imv_read(quota) * imv_read(sign);
	if (cfg.enabled && cfg.mode < 0)
		sum += cfg.port + (long)strlen(cfg.name);
	return sum;
}

int main(int argc, char **argv)
{
	char buffer[4];
	int bad = 0;

	(void)argv;
	hook(buffer, argc, sizeof(buffer));
	printf("start %ld\n", round_work(1));
	bad += setup(argc) != 0;
	for (int round = 0; round < 6; round++) {
		printf("round %d: %ld %ld\n", round, round_work(round), cold_work(round));
		bad += etch_set(&cfg.level, round * 1000 - 2500) != 0;
		bad += etch_set(&cfg.limit, round & 1 ? 0x80000000ul : 0xffffffffffffff00ul + (unsigned)round) != 0;
		bad += etch_set(&cfg.name, &"abcdefgh"[round]) != 0;
		bad += etch_set(&cfg.mode, round - 3) != 0;
		bad += etch_set(&local.a, -round) != 0;
		bad += etch_set(&local.c, 250 + round) != 0;
		bad += etch_set(&hidden, 0xfffffff0u + (unsigned)round) != 0;
		bad += etch_set(&small, round * 300) != 0;
		bad += etch_set(&tiny, round) != 0;
		bad += etch_set(&late, round) != 0;
		bad += imv_set(verbose, round) != 0;
		bad += imv_set(quota, 1ul << (round * 9)) != 0;
		bad += imv_set(sign, round - 2) != 0;
		bad += other_set(round) != 0;
	}
	printf("end %ld, %d sets failed, %ld sites differ\n", round_work(7), bad, etch_verify(NULL, NULL));
	return bad != 0;
}
