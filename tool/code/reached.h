/* SPDX-License-Identifier: MIT */
/* Which instructions of a file the flow analysis has come to: a bit per byte of code. */
#ifndef CODE_REACHED_H
#define CODE_REACHED_H

#include "code/space.h"

struct reached {
	uint8_t **bits; /* of each section of the space; null: nothing is known */
	size_t count;
};

struct flow;

int reached_init(struct reached *r, const struct code_space *space, struct error *e);
void reached_free(struct reached *r);
/* What flow_run() has found of its piece, in place of what was known of that; several
 * threads may do so, each with other pieces. */
void reached_take(struct reached *r, const struct code_space *space, const struct flow *f);
/* The first instruction at or behind addr in list[section] of the space; UINT64_MAX: none. */
uint64_t reached_next(const struct reached *r, const struct code_space *space, size_t section, uint64_t addr);
/* Does one begin at an address? */
bool reached_at(const struct reached *r, const struct code_space *space, uint64_t addr);

#endif
