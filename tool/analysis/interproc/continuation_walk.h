/* SPDX-License-Identifier: MIT */
/*
 * Continuations are addresses of code that assembly hands on in a register, for other code to jump to. This finds what
 * code does with such a register, from an address on, in code that no FDE describes.
 */
#ifndef ANALYSIS_INTERPROC_CONTINUATION_WALK_H
#define ANALYSIS_INTERPROC_CONTINUATION_WALK_H

#include "analysis/interproc/work.h"

/* Who jumps to a continuation. */
enum {
	BY_JUMP,
	BY_CALL,
	WAYS
}; /* code in the frame of the start jumps there; or a function that is called from there does */

/* What the code from an address on does with the continuations that its registers hold. */
struct passed {
	uint16_t by[WAYS];   /* registers that it jumps through and that still hold what they held at the start */
	bool jumps[WAYS];    /* it jumps through some register */
	int32_t moved[WAYS]; /* rsp at all these jumps, minus rsp at the start, or at the start of the called function */
	uint16_t waits;      /* of these registers, those that hold the same value at a jump through another register */
	uint16_t writes;     /* registers that are changed on any path */
	bool returns;        /* it returns with rsp as at the start, and never otherwise */
	bool differ;         /* rsp is not the same at all these jumps */
	bool unsure;         /* nothing is proven: the other members do not count, except for `differ` */
};

struct continuation_walk;
struct continuation_walk *continuation_walk_new(const struct work *w);
void continuation_walk_free(struct continuation_walk *c);
/* Frees the instructions, and keeps the results: few instructions of a later run are new. */
void continuation_walk_rest(struct continuation_walk *c);
/* Does the code at `addr` return, always with rsp as it was at `addr`? Then a return address is on top of the stack
 * there. */
bool continuation_returns(struct continuation_walk *c, uint64_t addr);
/*
 * Finds what becomes of an address that the instruction at `at` takes, and that waits in a register while code jumps
 * through another one: all jumps of the code from `start` on, which contains that instruction, with rsp relative to the
 * instruction.
 */
void continuation_follow_waiting(struct continuation_walk *c, uint64_t start, uint64_t at, struct passed *out);
/* Finds what becomes of the address in register r from `addr` on. */
void continuation_follow(struct continuation_walk *c, uint64_t addr, unsigned r, struct passed *out);

#endif
