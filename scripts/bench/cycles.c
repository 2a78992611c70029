/* SPDX-License-Identifier: MIT */
/*
 * cycles: the other table of the immediate values document.  Each iteration
 * takes a pointer from a pseudo-random value and then reads nothing, an
 * immediate, a variable in L1, or a variable somewhere in a buffer of a given
 * size, and branches on it.
 *
 *     cycles TESTS BUFFER_MIB    prints: variant, ticks of one test
 *
 * "serial" variants let the next address depend on the value read, which shows
 * the latency of a read; in the others the processor overlaps the reads of
 * many iterations.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <etch/imv.h>

#define ITERATIONS 100000u

DEFINE_IMV(int, immediate) = 0;
/* Read by the same macro, so by the same instructions; not in a section that etch knows. */
int variable__imv __attribute__((aligned(64)));
volatile int hits;
static char *buffer;
static size_t mask; /* lines of the buffer in use, less one */

/* One step of a linear congruential generator; the high bits pick the line. */
#define STEP(state, add) ((state) * 6364136223846793005u + 1442695040888963407u + (add))
#define LINE(state) (buffer + (((state) >> 20) & mask) * 64)

#define TEST(name, body)                                                       \
	__attribute__((noinline, aligned(64))) static void name(void)          \
	{                                                                      \
		static uint64_t saved = 1;                                     \
		uint64_t state = saved, n;                                     \
		for (n = 0; n < ITERATIONS; n++) {                             \
			unsigned add = 0;                                      \
			char *p = LINE(state);                                 \
			__asm__ __volatile__("" : "+r"(p));                    \
			body;                                                  \
			state = STEP(state, add);                              \
		}                                                              \
		saved = state;                                                 \
	}

TEST(test_none, )
TEST(test_label, BENCH_LABEL(hits++))
TEST(test_imv, if (etch_unlikely(imv_read(immediate))) hits++)
TEST(test_l1, if (etch_unlikely(imv_read(variable))) hits++)
TEST(test_buffer, if (etch_unlikely(*(volatile int *)p)) hits++)
TEST(test_imv_serial, if (etch_unlikely((add = (unsigned)imv_read(immediate)))) hits++)
TEST(test_l1_serial, if (etch_unlikely((add = (unsigned)imv_read(variable)))) hits++)
TEST(test_buffer_serial, if (etch_unlikely((add = (unsigned)*(volatile int *)p))) hits++)

int main(int argc, char **argv)
{
	size_t size = (argc > 2 ? (size_t)atol(argv[2]) : 2048) << 20;
	static struct test {
		const char *name;
		void (*run)(void);
		size_t bytes;
	} tests[] = {
		{"none", test_none, 64},
		{"none again", test_none, 64},
		{"label", test_label, 64},
		{"imv", test_imv, 64},
		{"imv serial", test_imv_serial, 64},
		{"L1", test_l1, 64},
		{"L1 serial", test_l1_serial, 64},
		{"1 MiB", test_buffer, 1 << 20},
		{"1 MiB serial", test_buffer_serial, 1 << 20},
		{"32 MiB", test_buffer, 32 << 20},
		{"32 MiB serial", test_buffer_serial, 32 << 20},
		{"memory", test_buffer, 0},
		{"memory serial", test_buffer_serial, 0},
	};
	struct etch_info info = {.size = sizeof info};
	unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 100, i, round;

	etch_info(&info);
	printf("# sites\t%lu\tarmed\t%lu\tpatched_at_start\t%lu\n", info.sites, info.armed,
	       info.patched_at_start);
	printf("# buffer\t%zu\titerations\t%u\tticks_per_ns\t%.6f\n", size, ITERATIONS, bench_ticks_per_ns());
	if (imv_set(immediate, 1) || (test_imv(), hits != ITERATIONS) || imv_set(immediate, 0)) {
		fprintf(stderr, "cycles: the immediate does not follow imv_set\n");
		return 1;
	}
	hits = 0;
	bench_pin(bench_cpu(0));
	buffer = bench_memory(size);
	for (round = 0; round <= n; round++)
		for (i = 0; i < sizeof tests / sizeof *tests; i++) {
			uint64_t t;
			size_t bytes = tests[i].bytes ? tests[i].bytes : size;

			mask = bytes / 64 - 1;
			tests[i].run(); /* its part of the caches back in place */
			t = bench_tsc();
			tests[i].run();
			t = bench_tsc() - t;
			if (round)
				printf("%s\t%llu\n", tests[i].name, (unsigned long long)t);
		}
	return hits != 0;
}
