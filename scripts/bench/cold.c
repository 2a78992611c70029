/* SPDX-License-Identifier: MIT */
/*
 * cold: the table of 2009.  Each iteration evicts caches and then reads 32, 128
 * or 4,096 flags, each followed by a branch.  All variants are functions of this
 * one program (generated: see flags_source in scripts/bench/run), so that they
 * run interleaved: in a new random order each round, BLOCK iterations of each.
 * The first of a block is not counted: there the code of another variant has
 * just run, which no program does to itself.
 *
 *     cold MODE ROUNDS           prints: variant, reads, ticks of the iteration,
 *                                ticks of its reads
 *       walk       the data cache is evicted: a random walk over three times L2
 *       walk+code  so is the instruction cache: 4 times L1i of jumps after it
 *       memory     the flags' lines are flushed to memory
 *       memory+code  and so is every line of the program's code
 *     cold count VARIANT READS N calls one function N times (for cachegrind)
 */
#define _GNU_SOURCE
#include "bench.h"

#include <etch/imv.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

extern volatile int hits;
extern int set_flags(const char *variant, int n, int value); /* first n of the read order */
volatile int hits;

void read_none_0(void);
__attribute__((noinline, aligned(64))) void read_none_0(void)
{
	__asm__ __volatile__("");
}

#define VARIANTS(X)                                                            \
	X(label, 32) X(imv, 32) X(vars, 32) X(packed, 32) X(plain, 32)         \
	X(label, 128) X(imv, 128) X(vars, 128) X(packed, 128) X(plain, 128)    \
	X(label, 4096) X(imv, 4096) X(vars, 4096) X(packed, 4096) X(plain, 4096)
#define DECLARE(v, n) extern void read_##v##_##n(void);
#define ROW(v, n) {#v, n, read_##v##_##n},
VARIANTS(DECLARE)

static const struct variant {
	const char *name;
	int reads;
	void (*run)(void);
} variants[] = {
	{"none", 0, read_none_0},
	{"none again", 0, read_none_0}, /* A/A: what the method itself cannot tell apart */
	VARIANTS(ROW)
};
#define BLOCK 4
#define COUNT (sizeof variants / sizeof *variants)

/* Where the variables of the variants lie; linker-made. */
extern char lines_start[] __asm__("__start_flag_lines"), lines_stop[] __asm__("__stop_flag_lines");
extern char packed_start[] __asm__("__start_flag_packed"), packed_stop[] __asm__("__stop_flag_packed");

static char *walk;
static size_t walk_lines;
static char *jumps;

static void walk_data(void)
{
	static size_t at;
	size_t i, sum = 0;

	/* Full period over a power of two (Knuth, TAOCP 3.2.1.2): every line once,
	 * in an order that no prefetcher follows. */
	for (i = 0; i < walk_lines; i++) {
		at = (at * 1664525 + 1013904223) & (walk_lines - 1);
		sum += (size_t)walk[at * 64];
	}
	__asm__ __volatile__("" : : "r"(sum));
}

/* A chain of jumps that visits every line of a region once, in random order. */
static void make_jumps(size_t lines)
{
	uint32_t *order = malloc(lines * sizeof *order);
	uint64_t rnd = 42;
	size_t i;

	jumps = bench_memory(lines * 64);
	for (i = 0; i < lines; i++)
		order[i] = (uint32_t)i;
	for (i = lines - 1; i > 1; i--) {
		size_t j = 1 + bench_random(&rnd) % i;
		uint32_t t = order[i];

		order[i] = order[j];
		order[j] = t;
	}
	for (i = 0; i < lines; i++) {
		char *p = jumps + (size_t)order[i] * 64;

		if (i == lines - 1) {
			*p = (char)0xc3;
		} else {
			int32_t rel = (int32_t)(((int64_t)order[i + 1] - (int64_t)order[i]) * 64 - 5);

			*p = (char)0xe9;
			memcpy(p + 1, &rel, 4);
		}
	}
	free(order);
	if (mprotect(jumps, lines * 64, PROT_READ | PROT_EXEC)) {
		perror("mprotect");
		exit(2);
	}
}

static void flush(const char *start, const char *stop)
{
	for (start = (const char *)((uintptr_t)start & ~(uintptr_t)63); start < stop; start += 64)
		__asm__ __volatile__("clflush %0" : : "m"(*start));
}

static const char *text_start, *text_stop;

static int find_text(struct dl_phdr_info *info, size_t size, void *arg)
{
	int i;

	(void)size;
	(void)arg;
	for (i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
			text_start = (const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
			text_stop = text_start + info->dlpi_phdr[i].p_memsz;
		}
	return 1; /* the first object is the program */
}

static void evict(const char *mode)
{
	int code = strchr(mode, '+') != NULL;

	if (mode[0] == 'w') {
		walk_data();
		if (code)
			((void (*)(void))(uintptr_t)jumps)();
	} else {
		flush(lines_start, lines_stop);
		flush(packed_start, packed_stop);
		if (code)
			flush(text_start, text_stop);
		__asm__ __volatile__("mfence" : : : "memory");
	}
}

/* Each variant counts the flags that are set: else it would measure nothing. */
static void check(void)
{
	unsigned i;

	for (i = 2; i < COUNT; i++) {
		int n = variants[i].reads / 2;

		if (!strcmp(variants[i].name, "label")) /* has no flags: nothing to set */
			continue;
		if (set_flags(variants[i].name, n, 1)) {
			fprintf(stderr, "cold: cannot set the flags of %s\n", variants[i].name);
			exit(1);
		}
		hits = 0;
		variants[i].run();
		if (hits != n) {
			fprintf(stderr, "cold: %s_%d sees %d of %d flags\n", variants[i].name,
			        variants[i].reads, hits, n);
			exit(1);
		}
		set_flags(variants[i].name, n, 0);
	}
	hits = 0;
}

int main(int argc, char **argv)
{
	struct etch_info info = {.size = sizeof info};
	unsigned order[COUNT], i, k, rounds, round;
	uint64_t rnd = 4101842887655102017u;
	long l2, l1i;

	if (argc == 5 && !strcmp(argv[1], "count")) {
		for (i = 0; i < COUNT; i++)
			if (!strcmp(variants[i].name, argv[2]) && variants[i].reads == atoi(argv[3])) {
				for (round = (unsigned)atoi(argv[4]); round; round--)
					variants[i].run();
				return 0;
			}
		return 2;
	}
	if (argc != 3)
		return 2;
	rounds = (unsigned)atoi(argv[2]);
	etch_info(&info);
	printf("# sites\t%lu\tarmed\t%lu\tloads\t%lu\tpatched_at_start\t%lu\n", info.sites, info.armed,
	       info.loads, info.patched_at_start);
	check();
	l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
	l1i = sysconf(_SC_LEVEL1_ICACHE_SIZE);
	if (l2 <= 0)
		l2 = 2 << 20;
	if (l1i <= 0)
		l1i = 64 << 10;
	for (walk_lines = 1; walk_lines * 64 < 3 * (size_t)l2; walk_lines *= 2)
		;
	walk = bench_memory(walk_lines * 64);
	make_jumps(4 * (size_t)l1i / 64);
	dl_iterate_phdr(find_text, NULL);
	printf("# walk_bytes\t%zu\tjump_bytes\t%ld\ttext_bytes\t%ld\tticks_per_ns\t%.6f\n", walk_lines * 64,
	       4 * l1i, (long)(text_stop - text_start), bench_ticks_per_ns());
	bench_pin(bench_cpu(0));
	for (i = 0; i < COUNT; i++)
		order[i] = i;
	for (round = 0; round < rounds; round++) {
		uint64_t sample[COUNT][BLOCK][2];

		for (i = COUNT - 1; i > 0; i--) {
			unsigned j = (unsigned)(bench_random(&rnd) % (i + 1)), t = order[i];

			order[i] = order[j];
			order[j] = t;
		}
		for (i = 0; i < COUNT * BLOCK; i++) {
			unsigned v = order[i / BLOCK];
			uint64_t t0 = bench_tsc(), t1, t2;

			evict(argv[1]);
			t1 = bench_tsc();
			variants[v].run();
			t2 = bench_tsc();
			sample[v][i % BLOCK][0] = t2 - t0;
			sample[v][i % BLOCK][1] = t2 - t1;
		}
		if (round < 2) /* warm up */
			continue;
		for (i = 0; i < COUNT; i++)
			for (k = 1; k < BLOCK; k++)
				printf("%s\t%d\t%llu\t%llu\n", variants[i].name, variants[i].reads,
				       (unsigned long long)sample[i][k][0], (unsigned long long)sample[i][k][1]);
	}
	if (hits) {
		fprintf(stderr, "cold: a flag that is not set was seen\n");
		return 1;
	}
	return 0;
}
