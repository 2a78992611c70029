/* SPDX-License-Identifier: MIT */
/*
 * A continuation is an address of code that assembly puts into a register so that other code can jump there later. The
 * functions below find, for code that no FDE describes, what the code from an address on does with the continuations in
 * its registers.
 */
#ifndef ANALYSIS_INTERPROC_CONTINUATION_WALK_H
#define ANALYSIS_INTERPROC_CONTINUATION_WALK_H

#include "analysis/interproc/work.h"

/* The ways in which a continuation is jumped to. */
enum {
	/* BY_JUMP: the followed code itself jumps there, in the frame of its start. BY_CALL: the followed code calls the
	 * continuation, or calls a function that jumps there. */
	BY_JUMP,
	BY_CALL,
	WAYS
};

/* What the code from an address (the start) on does with the continuations that its registers hold. Arrays are indexed
 * by way. */
struct passed {
	/* Registers that are jumped through while they still hold the value that they had at the start. */
	uint16_t by[WAYS];
	bool jumps[WAYS]; /* there is a jump through a register to some continuation */
	/* rsp at all these jumps minus rsp at the start of the code; for BY_CALL, minus rsp at the start of the called
	 * function. */
	int32_t moved[WAYS];
	/* Registers that still hold their values of the start at some jump through another register, and are not used
	 * otherwise. */
	uint16_t waits;
	uint16_t writes; /* registers that the code changes on any path */
	bool returns;    /* it returns, and wherever it returns, rsp is as at the start */
	bool differ;     /* two of these jumps have a different rsp */
	bool unsure;     /* nothing is proven: ignore all members except `differ` */
};

struct continuation_walk;
struct continuation_walk *continuation_walk_new(const struct work *w);
void continuation_walk_free(struct continuation_walk *c);
/* Frees the decoded instructions, but not the results of the walks. A later run finds most results there, and has to
 * decode few instructions. */
void continuation_walk_rest(struct continuation_walk *c);
/* Does the code at `addr` return, and does every return have the rsp that there was at `addr`? If so, a return address
 * is on top of the stack at `addr`. */
bool continuation_returns(struct continuation_walk *c, uint64_t addr);
/*
 * Follows an address that the instruction at `at` puts into a register, and that stays in the register while the code
 * jumps through another one. Finds all jumps to continuations in the code from `start` on, which contains the
 * instruction at `at`. out->moved[BY_JUMP] is relative to rsp at that instruction.
 */
void continuation_follow_waiting(struct continuation_walk *c, uint64_t start, uint64_t at, struct passed *out);
/* Follows the value that register r has at `addr`: finds the jumps through it in the code from `addr` on. */
void continuation_follow(struct continuation_walk *c, uint64_t addr, unsigned r, struct passed *out);

#endif
