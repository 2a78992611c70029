/* SPDX-License-Identifier: MIT */
/* The instructions of a file that the flow analysis has reached: one bit per byte of code, set for the first byte of
 * each such instruction. */
#ifndef ANALYSIS_FLOW_REACHED_H
#define ANALYSIS_FLOW_REACHED_H

#include "analysis/facts/space.h"

struct reached {
	uint8_t **bits; /* per section of the code space: one bit per byte; null: there are no results */
	size_t count;
};

struct flow;

void reached_init(struct reached *r, const struct code_space *space);
void reached_free(struct reached *r);
/* Replaces the bits of a code range by the results of flow_run(). Threads may call this at the same time for different
 * code ranges. */
void reached_take(struct reached *r, const struct code_space *space, const struct flow *f);
/* Returns the address of the first reached instruction at or after addr in section space->list[section], or UINT64_MAX
 * if there is none. */
uint64_t reached_next(const struct reached *r, const struct code_space *space, size_t section, uint64_t addr);
/* Does a reached instruction begin at an address? */
bool reached_at(const struct reached *r, const struct code_space *space, uint64_t addr);

#endif
