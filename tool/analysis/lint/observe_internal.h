/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files that implement analysis/lint/observe.h: observe_range.c (the pass over the instructions, which
 * decides on the others), observe_stack.c and observe_meet.c (passes over the states), observe_flag.c (direction flag),
 * observe_dead.c (unreachable code), observe_text.c (text of instructions and states).
 */
#ifndef ANALYSIS_LINT_OBSERVE_INTERNAL_H
#define ANALYSIS_LINT_OBSERVE_INTERNAL_H

#include "analysis/flow/flow_internal.h"
#include "analysis/lint/observe.h"

#define NO_OFFSET    UINT64_MAX
#define INSN_LONGEST 15u /* bytes (Intel SDM, volume 2, 2.3.11) */
#define INNER_MOST   16u /* remembered targets of ETCH-F005; a forgotten one is reported again */

/* What observe_range() works with. */
struct observe {
	struct flow *f;
	struct findings *out;
	uint64_t base;            /* in an object file: the address in the code space of the code range's section; else 0 */
	uint64_t size;            /* bytes of the code range */
	bool certain;             /* the assumed state at the start of the code range is certain */
	struct etch_cfi_row *cfi; /* rows of the code range's FDE, sorted; set by observe_stack(), while it runs */
	size_t cfi_count, cfi_capacity;
	bool stack, flag; /* an instruction makes observe_stack() or observe_flag() worth while; set by steps_look() */
	/* Offset of the end of the last call or system call that steps_look() has passed, if only padding has followed; or
	 * NO_OFFSET. */
	uint64_t ended;
	uint64_t inner[INNER_MOST]; /* a ring of the last targets that have an ETCH-F005 finding */
	unsigned inner_count;       /* targets ever put there */
};

#define DESCRIPTION_MOST 200u /* bytes of each `out` buffer of observe_text.c */

/* observe_stack.c: ETCH-S001 to S005, F004. */
void observe_stack(struct observe *o);
/* Returns the row of .eh_frame for an address of the code range, or null. */
const struct etch_cfi_row *observe_cfi(const struct observe *o, uint64_t addr);
/* observe_meet.c: ETCH-S001. Sets lost[k] for each state k of the flow where paths with different frames join. */
void observe_meet(struct observe *o, bool *lost);
/* observe_flag.c: ETCH-S006. */
void observe_flag(struct observe *o);
/* observe_dead.c: ETCH-F002 for the offsets [off, end), which no path reaches except after noreturn calls. before:
 * index of the last reachable step before them, or NO_STEP. */
void observe_dead(struct observe *o, uint64_t off, uint64_t end, uint32_t before);

/* observe_text.c: writes the instruction at an offset: "mov %rax, %rsp". */
void describe_insn(const struct observe *o, uint64_t off, char *out);
/* Writes a state: "rsp is CFA-24 (16 bytes pushed); rbx saved at CFA-16". */
void describe_state(const struct state *s, char *out);
/* Writes a value: "CFA-24", "the caller's rbx". */
void describe_value(struct value v, char *out);
/* Writes the target of a direct call or jump: a name, or an address. */
void describe_target(const struct observe *o, uint64_t target, char *out);

/* observe_range.c: may execution continue at the instruction after this one? */
bool observe_goes_on(const struct observe *o, const struct step *in);
/* Does a function begin at an address, by .eh_frame or symbols? */
bool observe_is_function(const struct flow_env *env, uint64_t addr);

/* Adds a finding. */
#define OBSERVE(o, ...) finding_add((o)->out, __VA_ARGS__)
/* Adds a fact about the instruction at an offset in the code range. */
#define OBSERVE_FACT_AT(o, x, off, ...) finding_fact_at((x), 0, (o)->f->in.range->start + (off), __VA_ARGS__)

#endif
