/* SPDX-License-Identifier: MIT */
/*
 * Times a walker at the bottom of random paths of 64 calls through the tree.
 *
 *     walk-NAME MODE FUNCTIONS WALKS
 *
 * repeat   one path over FUNCTIONS functions, the same stack walked again and again
 * random   a new path for each walk
 * profile  as a sampling profiler sees it: the innermost 1 to 16 frames are new
 * swept    as random, and 16 MiB of other memory are read just before each walk
 * check    no time: a hash of the return addresses of each stack, and whether they
 *          lie in the functions that were called
 * count    random, without a clock: for cachegrind
 *
 * Prints what `scripts/bench/run` reads: "# key value" lines, then the ticks of
 * one walk a line.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <string.h>

#include "../bench.h"
#include "walk.h"

#define DEPTH  64
#define FRAMES (DEPTH + 2) /* so that no walker gets to main, which is not of the same code in all */
#define BATCH  16          /* walks of a repeat sample: less of the timer's own cost in each */
/* Untimed walks: each return address is seen some 25 times. */
#define WARMUP (strcmp(mode, "profile") ? 3000 : 20000)
#define SWEEP  (16u << 20)

static struct step path[DEPTH + 1];
static void *ips[FRAMES];
static int frames, batch = 1;
static volatile char *sweep;
static uint64_t ticks;

__attribute__((noinline)) int bottom(void)
{
	uint64_t start;
	size_t i;
	int n;

	if (sweep)
		for (i = 0; i < SWEEP; i += 64)
			sweep[i];
	start = bench_tsc();
	for (n = 0; n < batch; n++)
		frames = walk(ips, FRAMES);
	ticks = bench_tsc() - start;
	return 0;
}

/* A function calls from the same place always: as many return addresses as functions. */
static void path_change(uint64_t *seed, int from, int functions)
{
	unsigned n;
	int i;

	for (i = from; i < DEPTH; i++) {
		n = bench_random(seed) % (unsigned)functions;
		path[i].fn = tree[n];
		path[i + 1].site = n * 2654435761u >> 31;
	}
}

static int function_of(const void *ip)
{
	int lo = 0, hi = tree_count;

	while (hi - lo > 1) {
		int mid = (lo + hi) / 2;

		if ((uintptr_t)tree[mid] < (uintptr_t)ip)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

/* The tree's part of a trace; its first entry. */
static int tree_part(void)
{
	int i;

	for (i = 0; i < frames; i++)
		if ((uintptr_t)ips[i] > (uintptr_t)tree[0] && (uintptr_t)ips[i] <= (uintptr_t)tree[tree_count - 1])
			return i;
	return frames;
}

/* Where the tree begins is not the same in all programs, its own code is. The
 * last function is left out: where it ends is not known. */
static uint64_t trace_hash(int *wrong)
{
	uint64_t h = 14695981039346656037u; /* FNV-1a */
	int first = tree_part(), i;

	*wrong += frames - first < DEPTH;
	for (i = 0; i < DEPTH && first + i < frames; i++) {
		h = (h ^ ((uintptr_t)ips[first + i] - (uintptr_t)tree[0])) * 1099511628211u;
		*wrong += tree[function_of(ips[first + i])] != path[DEPTH - 1 - i].fn;
	}
	return h;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t timer_cost(void)
{
	uint64_t t[1001];
	size_t i;

	for (i = 0; i < 1001; i++) {
		uint64_t start = bench_tsc();

		t[i] = bench_tsc() - start;
	}
	qsort(t, 1001, sizeof *t, by_value);
	return t[500];
}

int main(int argc, char **argv)
{
	const char *mode = argc == 4 ? argv[1] : "";
	int functions = argc == 4 ? atoi(argv[2]) : 0, walks = argc == 4 ? atoi(argv[3]) : 0, wrong = 0, i;
	bool checked = !strcmp(mode, "check");
	uint64_t seed = 88172645463325252u;
	volatile char *swept = NULL;
	uint64_t empty;

	if (!walks || functions < 1 || functions >= tree_count) {
		fprintf(stderr, "usage: %s repeat|random|profile|swept|check|count FUNCTIONS WALKS\n", argv[0]);
		return 2;
	}
	if (!strcmp(mode, "swept"))
		swept = bench_memory(SWEEP);
	if (!strcmp(mode, "repeat"))
		batch = BATCH;
	walk_prepare();
	empty = strcmp(mode, "count") ? timer_cost() : 0;
	if (empty)
		printf("# ticks_per_ns\t%.4f\tbatch\t%d\tempty\t%llu\n", bench_ticks_per_ns(), batch,
		       (unsigned long long)empty);
	path_change(&seed, 0, functions);
	for (i = checked ? 0 : -WARMUP; i < walks; i++) {
		sweep = i >= 0 ? swept : NULL;
		if (!strcmp(mode, "profile"))
			path_change(&seed, DEPTH - 1 - (int)(bench_random(&seed) >> 20 & 15), functions);
		else if (strcmp(mode, "repeat"))
			path_change(&seed, 0, functions);
		path[0].fn(path + 1);
		if (checked)
			printf("%016llx\n", (unsigned long long)trace_hash(&wrong));
		else if (empty && i >= 0)
			printf("%.0f\n", ticks > empty ? (double)(ticks - empty) : 0.0);
	}
	printf("# frames\t%d\twrong\t%d\n", frames, wrong);
	return 0;
}
