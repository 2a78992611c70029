/* SPDX-License-Identifier: MIT */
/*
 * What the files behind code/observe.h share: observe.c (one look over the instructions),
 * observe_stack.c and observe_meet.c (states, where the first look saw a reason to),
 * observe_flag.c (the direction flag), observe_dead.c (what is not reached), observe_text.c
 * (instructions and states in words).
 */
#ifndef CODE_OBSERVE_PARTS_H
#define CODE_OBSERVE_PARTS_H

#include "code/flow_parts.h"
#include "code/observe.h"

#define INSN_LONGEST 15u
#define INNER_MOST 16u

struct observe {
	struct flow *f;
	struct findings *out;
	uint64_t base;    /* ET_REL: of the section that the piece is in; else 0 */
	uint64_t size;    /* of the piece */
	bool certain;     /* that the piece begins as it was taken to */
	bool failed;
	struct etch_cfi_row *cfi; /* of the piece's FDE; in observe_stack() and what it calls */
	size_t cfi_count, cfi_room;
	bool stack, flag; /* what the instructions give reason to look for */
	uint64_t inner[INNER_MOST]; /* targets of calls within the piece that have been told */
	unsigned inner_count;
};

#define WORDS_MOST 200u /* a text of observe_text.c */

/* observe_stack.c: ETCH-S001 to S005, F004. */
void observe_stack(struct observe *o);
/* What .eh_frame says of an address there, or null. */
const struct etch_cfi_row *observe_cfi(const struct observe *o, uint64_t addr);
/* observe_meet.c: ETCH-S001; lost[] is set for each state of the flow analysis that is told of. */
void observe_meet(struct observe *o, bool *lost);
/* observe_flag.c: ETCH-S006. */
void observe_flag(struct observe *o);
/* observe_dead.c: ETCH-F002: the run from off to end was not reached, or only behind calls
 * that do not come back; before: the instruction that it lies behind, or NO_STEP. */
void observe_dead(struct observe *o, uint64_t off, uint64_t end, uint32_t before);

/* observe_text.c: "mov %rax, %rsp", of the instruction at an offset. */
void words_insn(const struct observe *o, uint64_t off, char *out);
/* "rsp is CFA-24 (16 bytes pushed); rbx saved at CFA-16" */
void words_state(const struct state *s, char *out);
/* "CFA-24" and the like; what a register holds, "rbx's value at the start". */
void words_value(struct value v, char *out);
/* What a direct call or jump goes to: a name, or an address. */
void words_target(const struct observe *o, uint64_t target, char *out);

/* May an instruction be executed behind this one, next in the file? */
bool observe_goes_on(const struct observe *o, const struct step *in);
/* Does another function begin at an address, as far as symbols and .eh_frame say? */
bool observe_is_function(const struct flow_env *env, uint64_t addr);

/* Finding and fact, of which out of memory is noted. */
#define OBSERVE(o, ...) observe_made((o), finding_add((o)->out, __VA_ARGS__))
static inline struct finding *observe_made(struct observe *o, struct finding *x)
{
	o->failed |= !x;
	return x;
}
#define OBSERVE_FACT(o, x, ...) ((o)->failed |= !finding_fact((x), __VA_ARGS__))
#define OBSERVE_FACT_AT(o, x, off, ...) \
	((o)->failed |= !finding_fact_at((x), 0, (o)->f->piece->start + (off), __VA_ARGS__))

#endif
