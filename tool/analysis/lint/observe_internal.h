/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files that implement analysis/lint/observe.h: observe_range.c (passes over the instructions, and
 * decides which other passes are needed), observe_stack.c and observe_meet.c (passes over the states), observe_flag.c
 * (direction flag), observe_dead.c (unreachable code), observe_text.c (text of instructions and states).
 */
#ifndef ANALYSIS_LINT_OBSERVE_INTERNAL_H
#define ANALYSIS_LINT_OBSERVE_INTERNAL_H

#include "analysis/flow/flow_internal.h"
#include "analysis/lint/observe.h"

#define NO_OFFSET    UINT64_MAX
#define INSN_LONGEST 15u /* bytes (Intel SDM, volume 2, 2.3.11) */
/* Number of targets with ETCH-F005 findings that are remembered; if one is forgotten, it is reported again. */
#define INNER_MOST 16u

/* The state of observe_range(). */
struct observe {
	struct flow *f;
	struct findings *out;
	/* In an object file: address in the code space of the section that contains the code range; else 0. */
	uint64_t base;
	uint64_t size; /* bytes of the code range */
	bool certain;  /* the state that was assumed at the start of the code range is certain */
	/* Rows of the code range's FDE, sorted; valid while observe_stack() runs, which sets them. */
	struct etch_cfi_row *cfi;
	size_t cfi_count, cfi_capacity;
	/* Some instruction makes it worth while to run observe_stack(), or observe_flag(); set by steps_look(). */
	bool stack, flag;
	/* Offset after the last call or system call, if steps_look() has seen only padding since; otherwise NO_OFFSET. */
	uint64_t ended;
	uint64_t inner[INNER_MOST]; /* ring buffer of the last targets for which an ETCH-F005 finding was added */
	unsigned inner_count;       /* number of targets that were ever put into `inner` */
};

#define DESCRIPTION_MOST 200u /* size in bytes of each buffer `out` in observe_text.c */

/* observe_stack.c: adds ETCH-S001 to S005 and F004. */
void observe_stack(struct observe *o);
/* Returns the row that .eh_frame has for an address of the code range, or null. */
const struct etch_cfi_row *observe_cfi(const struct observe *o, uint64_t addr);
/* observe_meet.c: adds ETCH-S001. Sets lost[k] if paths with different frames join in state k of the flow. */
void observe_meet(struct observe *o, bool *lost);
/* observe_flag.c: adds ETCH-S006. */
void observe_flag(struct observe *o);
/* observe_dead.c: adds ETCH-F002 for the offsets [off, end), which no path reaches unless a noreturn call returns.
 * `before`: index of the last reachable step in front of them, or NO_STEP. */
void observe_dead(struct observe *o, uint64_t off, uint64_t end, uint32_t before);

/* observe_text.c: writes the text of the instruction at an offset, e.g. "mov %rax, %rsp". */
void describe_insn(const struct observe *o, uint64_t off, char *out);
/* Writes the text of a state, e.g. "rsp is CFA-24 (16 bytes pushed); rbx saved at CFA-16". */
void describe_state(const struct state *s, char *out);
/* Writes the text of a value, e.g. "CFA-24" or "the caller's rbx". */
void describe_value(struct value v, char *out);
/* Writes the target of a direct call or jump: its name, or its address. */
void describe_target(const struct observe *o, uint64_t target, char *out);

/* observe_range.c: may execution continue at the instruction after this one? */
bool observe_goes_on(const struct observe *o, const struct step *in);
/* Does a function begin at an address, according to .eh_frame or symbols? */
bool observe_is_function(const struct flow_env *env, uint64_t addr);

/* Adds a finding. */
#define OBSERVE(o, ...) finding_add((o)->out, __VA_ARGS__)
/* Adds a fact about the instruction at an offset in the code range. */
#define OBSERVE_FACT_AT(o, x, off, ...) finding_fact_at((x), 0, (o)->f->in.range->start + (off), __VA_ARGS__)

#endif
