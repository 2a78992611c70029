/* SPDX-License-Identifier: MIT */
/*
 * Code of a language runtime that keeps its frames on a stack of its own (struct flow_runtime): whether a file has such
 * code, which code ranges it is in, and their rows. Relative to the C stack all of it is one frame. Its rule is that of
 * the state in which C jumps to it; where no code of the file does so, it is the rule of the runtime's release, which
 * the names in DT_NEEDED and DT_SONAME tell.
 */
#ifndef ANALYSIS_INTERPROC_OWN_STACK_RANGES_H
#define ANALYSIS_INTERPROC_OWN_STACK_RANGES_H

#include "analysis/flow/flow.h"
#include "support/error.h"

struct work;

/* What is known of such code in a file, from its dynamic segment and from the code. */
struct own_stack {
	struct etch_rule rule; /* the rule where rsp is as at the jump from C; kind UNDEF: unknown */
	bool run;              /* `rule` is from such a jump in the file */
	bool differ;           /* there are several rules, which differ: none is used */
	uint8_t **seen;        /* own_stack_starts(): per code section, a bit for each byte that was followed; or null */
};

/* Before the first round: reads the runtime's release from the dynamic segment. */
void own_stack_open(struct work *w);
/* Takes the rule `run` of a jump from C. Not thread-safe: the caller holds work.rounds.lock. */
void own_stack_take(struct own_stack *h, const struct etch_rule *run);
/* Between two rounds: once it has turned out whether the file has such code, marks all code ranges that may be such
 * code. */
void own_stack_decide(struct work *w);
/* After the last round: spreads non_c_frame over jumps (not over calls), in both directions. */
void non_c_frames_spread(struct work *w);
/* Then: makes the rows of code ranges that are certain to be such code; removes those of code ranges
 * that may be either. */
void own_stack_rows(struct work *w);
/* own_stack_starts.c: adds the starts of such code that are reached from undiscovered targets to these targets. */
void own_stack_starts(struct work *w);
void own_stack_free(struct work *w);

#endif
