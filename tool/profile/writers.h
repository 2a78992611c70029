/* SPDX-License-Identifier: MIT */
/* The formats of `etch profile`, of a profile that profile_name() has seen. Each returns false when out of memory;
 * errors of the stream are for the caller to see (ferror(3)). */
#ifndef PROFILE_WRITERS_H
#define PROFILE_WRITERS_H

#include <stdio.h>

#include "profile/profile.h"

/* Folded stacks: "thread;outermost;...;innermost COUNT", a line a stack; COUNT in samples, or microseconds off CPU. */
bool write_folded(const struct profile *p, FILE *out);
/* A flame graph: one SVG file with a script that zooms and searches. */
bool write_svg(const struct profile *p, const char *title, FILE *out);
/* pprof's protobuf (pprof.proto), gzipped. Adds names to p->names. */
bool write_pprof(struct profile *p, FILE *out);
/* The Firefox profiler's processed format, JSON. */
bool write_firefox(const struct profile *p, const char *title, FILE *out);

/* The functions with the most samples, and what the profile does not know: for people. At most `most` functions. */
bool write_top(const struct profile *p, size_t most, bool color, FILE *out);

/* Is it known when what was seen was seen? */
bool profile_has_time(const struct profile *p);

/* The weight of each call: its own, and with all that it called. Two malloc'd arrays by number in p->calls. */
bool calls_weigh(const struct profile *p, uint64_t **self, uint64_t **total);
/* The number in p->names of a function's name, and of its binary's. */
static inline uint32_t function_name(const struct profile *p, uint32_t f)
{
	return (uint32_t)(p->functions.list[f].a >> 32);
}
static inline uint32_t function_binary(const struct profile *p, uint32_t f) { return (uint32_t)p->functions.list[f].a; }
static inline uint32_t function_symbol(const struct profile *p, uint32_t f)
{
	return (uint32_t)(p->functions.list[f].b >> 32);
}

/* Weight that the formats with numbers of samples count as one; off CPU as one millisecond. */
static inline uint64_t weight_unit(const struct profile *p)
{
	switch (p->unit) {
	case UNIT_BYTES: return 1;
	case UNIT_WAIT: return 1000000;
	case UNIT_TIME: break;
	}
	return p->period;
}

#endif
