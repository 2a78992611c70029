/* SPDX-License-Identifier: MIT */
/*
 * Some language runtimes keep the frames of their code on a stack of their own (struct flow_runtime). The functions
 * below find out whether a file has such code and which code ranges it is in, and make its rows. Seen from the C stack,
 * all such code is one frame. The rule of that frame is taken from the state in which C jumps to such code; if no C
 * code of the file does, it is the known rule of the runtime's release, which the library names in DT_NEEDED and
 * DT_SONAME tell.
 */
#ifndef ANALYSIS_INTERPROC_OWN_STACK_RANGES_H
#define ANALYSIS_INTERPROC_OWN_STACK_RANGES_H

#include "analysis/flow/flow.h"
#include "support/error.h"

struct work;

/* What the dynamic segment and the code of a file say about code with a stack of its own. */
struct own_stack {
	/* The rule at a point where rsp is the same as at the jump from C; kind UNDEF: unknown. */
	struct etch_rule rule;
	bool run;    /* `rule` was found at a jump from C in this file */
	bool differ; /* several different rules were found, so none is used */
	/* Addresses that own_stack_starts() has followed: for each code section, one bit per byte; null before the first
	 * run. */
	uint8_t **seen;
};

/* Before the first round: takes the rule of the runtime's release from the dynamic segment. */
void own_stack_open(struct work *w);
/* Records the rule `run`, found at a jump from C. Not thread-safe: the caller holds work.rounds.lock. */
void own_stack_take(struct own_stack *h, const struct etch_rule *run);
/* Between two rounds: if the answer to whether the file has such code has changed, marks all code ranges that may be
 * such code. */
void own_stack_decide(struct work *w);
/* After the last round: if a code range has non_c_frame, sets it in all code ranges that jumps (not calls) connect with
 * it, in either direction. */
void non_c_frames_spread(struct work *w);
/* After non_c_frames_spread(): converts the rows of code ranges that certainly have a stack of their own, and removes
 * the rows of those that may be such code or C. */
void own_stack_rows(struct work *w);
/* own_stack_starts.c: follows such code from the undiscovered targets, and adds the starts that it refers to as further
 * undiscovered targets. */
void own_stack_starts(struct work *w);
void own_stack_free(struct work *w);

#endif
