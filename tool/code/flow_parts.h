/* SPDX-License-Identifier: MIT */
/*
 * What the files of the flow analysis share: flow.c (a piece), flow_reach.c (decoding), flow_walk.c (states),
 * flow_queue.c (what is to be walked), advance.c (one instruction), ends.c
 * (where a function ends of which nothing says where), jumps.c (jump tables and what only indirect jumps
 * reach), exits.c (results). The way in is flow.h.
 */
#ifndef CODE_FLOW_PARTS_H
#define CODE_FLOW_PARTS_H

#include "code/flow.h"

#define NO_STEP UINT32_MAX
#define LIVE    1u /* flow.state_live: it has a value */
#define QUEUED  2u /* it is in the heap */
#define THROWS  4u /* a call that has a landing pad is behind it */

/* The last compare, while the flags and what it compared are still its. */
struct compared {
	uint8_t op; /* STEP_COMPARE, STEP_LIMIT, or STEP_NONE */
	uint8_t a, b, size;
	uint8_t stirred; /* STIRS_* of instructions that may change it; of memory, any store may be to there */
	uint16_t watch; /* registers that it has to do with */
	int32_t disp;
	int64_t imm;
	/* Memory at base + disp is known to hold at most `most`: gcc compares there
	 * what it then loads. size 0: not known. */
	struct { uint8_t base, size; int32_t disp; int64_t most; } bound;
};

static inline bool flow_inside(const struct flow *f, uint64_t addr)
{
	return addr >= f->piece->start && addr < f->piece->end;
}
/* Has a state been before the instruction at an offset? */
static inline bool flow_walked(const struct flow *f, uint64_t off)
{
	return f->at[off] && (f->seen[f->at[off] - 1] & FLOW_WALKED);
}
/* Do numbers matter in the piece? */
static inline bool flow_asks(const struct flow *f) { return f->asks & STIRS_ASKS; }
/* Does the program end here? */
static inline bool flow_is_exit(const struct step *in, const struct state *s)
{
	return in->op == STEP_SYSCALL && s->reg[in->a].kind == VALUE_CONST && STEP_IS_EXIT(s->reg[in->a].off);
}

/* flow.c: what .eh_frame says of an address of the piece, or null. */
const struct etch_cfi_row *flow_cfi_at(const struct flow *f, uint64_t addr);

/* flow_reach.c */
/* The step at an offset, decoded when first asked for; NO_STEP. */
uint32_t flow_step_new(struct flow *f, uint64_t off);
static inline uint32_t flow_step(struct flow *f, uint64_t off)
{
	if (off >= f->piece->end - f->piece->start)
		return NO_STEP;
	return f->at[off] ? f->at[off] - 1 : flow_step_new(f, off);
}
/* Paths meet at an offset. Returns the number of the step, or NO_STEP. */
uint32_t flow_leader(struct flow *f, uint64_t off);
/* Decodes all that is reached from an offset, and has not been. */
void flow_reach(struct flow *f, uint64_t off);

/* flow_queue.c: from a state on is to be walked; the offset that is next, of one or more. */
void flow_queue(struct flow *f, uint32_t state);
uint32_t flow_queue_next(struct flow *f);

/* flow_walk.c */
/* Begins at an address with a state: finds all that it reaches; flow_walk() then
 * takes the states along. */
void flow_enter(struct flow *f, uint64_t addr, const struct state *s);
void flow_walk(struct flow *f);
/* Where calls throw to, once it is known where they throw from; what only calls that do not come back lead to. */
void flow_walk_pads(struct flow *f);
void flow_dead_follow(struct flow *f);

/* flow.c */
uint64_t flow_exit_target(const struct step *s);
bool flow_comes_back(const struct flow *f, const struct step *s);
bool flow_is_noreturn(const struct flow *f, const struct step *s);
uint64_t flow_pad_of(const struct flow *f, uint64_t addr);
bool flow_is_tail_call(const struct flow *f, uint64_t target, const struct state *s);
void flow_exit_add(struct flow *f, uint64_t target, unsigned kind);
/* The entry of an exception table for the instruction at an address, or null; and the
 * state in which it goes on where it says, when the instruction faults. */
const struct fixup *flow_fixup_of(const struct flow *f, uint64_t addr);
void flow_fault(const struct fixup *x, const struct step *in, const struct state *before, struct state *out);
void flow_land(const struct flow *f, const struct state *call, struct state *out);
/* exits.c: can the number in an instruction be an address that it takes? */
bool flow_takes_address(const struct flow *f, const struct step *in);

/* advance.c */
/* From the state before an instruction to the one behind it, where it goes on. */
void flow_advance_slowly(const struct step *in, struct state *s, uint32_t off, struct compared *c);
/* As state_leaves_check(): aborts where something is to be done all the same. */
void flow_idle_check(const struct step *in, const struct state *s, const struct compared *c);
/* Nothing is to be done for most: neither the state nor what was compared has to do with them. (What leaves a state
 * changes no other registers than those that it touches.) */
static inline bool flow_idle(const struct step *in, const struct state *s, const struct compared *c)
{
	bool idle = !((in->touches & (s->known | c->watch)) | (in->stirs & (c->stirred | s->numbers | STIRS_WAY)));

#ifdef ETCH_CHECK_STEPS
	if (idle)
		flow_idle_check(in, s, c);
#endif
	return idle;
}
static inline void flow_advance(const struct step *in, struct state *s, uint32_t off, struct compared *c)
{
	if (!flow_idle(in, s, c))
		flow_advance_slowly(in, s, off, c);
}

/* ... and returns whether all that rules are made of has stayed as it is, which is so behind most. */
bool flow_advance_same(const struct step *in, struct state *s, uint32_t off, struct compared *c);
/* ... and to where a branch leads. */
void flow_branch_taken(const struct step *in, struct state *s, uint32_t off, const struct compared *c);
/* May the outcome of a branch say anything of what was compared? */
bool flow_may_learn(const struct compared *c, unsigned cond, const struct state *s);

/* ends.c: is there nothing of the piece behind a call but padding? Where nothing says where the piece ends, that is
 * padding in front of what begins as functions do, or the function that it calls. */
bool flow_is_end(struct flow *f, const struct step *call, uint64_t off);
/* Does the piece begin as functions do, where they do? */
bool flow_begins(struct flow *f);
/* Does code that a call of what follows it leads to look at what that has pushed, or drop it? */
bool flow_asks_where(struct flow *f, uint64_t off);

/* helpers.c: does a call of an address in the piece lead to a part of what it began as, none of its own? */
bool flow_is_helper(struct flow *f, uint64_t target);

/* jumps.c */
/* A jump is not what it was. */
static inline void flow_agreed_undo(struct flow *f, size_t jump)
{
	if (jump < f->agreed.upto) {
		f->agreed.upto = 0;
		f->agreed.some = f->agreed.differ = false;
	}
}
void jumps_follow(struct flow *f);
/* Entry i of a jump table; 0: there is none. */
uint64_t jump_table_target(const struct flow *f, const struct value *t, unsigned i);

#endif
