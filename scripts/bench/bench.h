/* SPDX-License-Identifier: MIT */
/*
 * What the benchmark programs share: the time stamp counter, pinning, and
 * memory.  Each program prints raw samples, one a line, tab-separated;
 * scripts/bench/run computes medians and spreads.
 */
#ifndef BENCH_H
#define BENCH_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

/* Fenced on both sides: nothing timed starts before, nothing before ends after
 * (Intel SDM vol. 2, RDTSC: "to be executed only after all previous
 * instructions", LFENCE;RDTSC;LFENCE). */
static inline uint64_t bench_tsc(void)
{
	uint32_t lo, hi;

	__asm__ __volatile__("lfence\n\trdtsc\n\tlfence" : "=a"(lo), "=d"(hi) : : "memory");
	return (uint64_t)hi << 32 | lo;
}

static inline double bench_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* TSC ticks per nanosecond, against the system clock over 100 ms. */
static inline double bench_ticks_per_ns(void)
{
	double s = bench_seconds(), e;
	uint64_t t = bench_tsc();

	while ((e = bench_seconds()) - s < 0.1)
		;
	return (double)(bench_tsc() - t) / ((e - s) * 1e9);
}

/* The nth CPU this process may run on, or -1.  The set is taken at the first
 * call: later the caller may have pinned itself. */
static inline int bench_cpu(int n)
{
	static cpu_set_t set;
	static int known;
	int i;

	if (!known && sched_getaffinity(0, sizeof set, &set))
		return -1;
	known = 1;
	for (i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set) && n-- == 0)
			return i;
	return -1;
}

static inline void bench_pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof set, &set);
}

static inline uint64_t bench_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

/*
 * The peer of an immediate that is only ever branched on: a jump label (Linux,
 * include/linux/jump_label.h), a 5-byte nop where the branch is off.  It is never
 * patched here: it is what an etched flag could cost at best.
 */
#ifdef __clang__
#define BENCH_COLD
#else
#define BENCH_COLD __attribute__((cold))
#endif
#define BENCH_LABEL(action)                                                    \
	({                                                                     \
		__label__ on, off;                                             \
		__asm__ goto(".byte 0x0f, 0x1f, 0x44, 0x00, 0x00" : : : : on); \
		goto off;                                                      \
	on:                                                                    \
		BENCH_COLD;                                                    \
		action;                                                        \
	off:;                                                                  \
	})

/* Touched anonymous memory, in huge pages where the system gives them. */
static inline void *bench_memory(size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t i;

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	madvise(p, size, MADV_HUGEPAGE);
	for (i = 0; i < size; i += 4096)
		p[i] = 0;
	return p;
}

#endif
