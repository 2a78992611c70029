/* SPDX-License-Identifier: MIT */
/* Reads the clocks that measure how long something takes. */
#ifndef SUPPORT_CLOCK_H
#define SUPPORT_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Returns what a clock shows, in nanoseconds. */
static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Returns the time since some point in the past, in nanoseconds and in seconds. */
static inline uint64_t clock_now(void) { return clock_ns(CLOCK_MONOTONIC); }
static inline double clock_seconds(void) { return 1e-9 * (double)clock_now(); }

#endif
