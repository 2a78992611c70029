/* SPDX-License-Identifier: MIT */
/* Writes the formats of `etch profile`, for a profile that profile_name() has named. Each function returns false if out
 * of memory; the caller must check the stream for errors (ferror(3)). */
#ifndef PROFILE_WRITERS_H
#define PROFILE_WRITERS_H

#include <stdio.h>

#include "profile/profile.h"

/* Writes folded stacks, one on each line: "thread;outermost;...;innermost COUNT", with COUNT in samples, or in
 * microseconds off CPU. */
bool write_folded(const struct profile *p, FILE *out);
/* Writes a flame graph: one SVG file with a script that zooms and searches. */
bool write_svg(const struct profile *p, const char *title, FILE *out);
/* Writes pprof's protobuf (pprof.proto), gzipped. Adds names to p->names. */
bool write_pprof(struct profile *p, FILE *out);
/* Writes the Firefox profiler's processed format, which is JSON. */
bool write_firefox(const struct profile *p, const char *title, FILE *out);

/* Prints for people the functions with the most samples, at most `most` of them, and what the profile lacks. */
bool write_top(const struct profile *p, size_t most, bool color, FILE *out);

/* Prints the lines that say how many stacks are incomplete, why, and what helps (stop_lines.c). With in_process the
 * process itself walked the stacks (`etch heap`), and it analyses no file. */
void stop_lines_put(const struct profile *p, bool in_process, FILE *out);

/* Does the profile have the times of its samples? */
bool profile_has_time(const struct profile *p);

/* Computes the weight of each call: its own, and with everything that it called. Both are malloc'd arrays, indexed by
 * number in p->calls. */
bool calls_weigh(const struct profile *p, uint64_t **self, uint64_t **total);
/* Return the number in p->names of a function's name, of its binary's name, and of its name in the symbol table. */
static inline uint32_t function_name(const struct profile *p, uint32_t f)
{
	return (uint32_t)(p->functions.list[f].a >> 32);
}
static inline uint32_t function_binary(const struct profile *p, uint32_t f) { return (uint32_t)p->functions.list[f].a; }
static inline uint32_t function_symbol(const struct profile *p, uint32_t f)
{
	return (uint32_t)(p->functions.list[f].b >> 32);
}

/* Returns the weight that the formats with numbers of samples count as one sample, or off CPU as one millisecond. */
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
