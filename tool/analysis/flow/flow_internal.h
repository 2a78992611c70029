/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of the flow analysis, whose interface is flow.h. flow_run.c drives the analysis of a code range:
 * flow_reach.c decodes the reachable code, flow_walk.c propagates states (dataflow/solver.h), advance.c contains the
 * transfer function, jumps.c follows jump tables, ends.c finds the ends of open code ranges, flow_states.c reports the
 * states, and exits.c makes the results (taken_addresses.c those of addresses that code takes).
 */
#ifndef ANALYSIS_FLOW_FLOW_INTERNAL_H
#define ANALYSIS_FLOW_FLOW_INTERNAL_H

#include "analysis/flow/flow.h"

#define NO_STEP UINT32_MAX
#define LIVE    1u /* in flow.state_live: the state has a value */
#define THROWS  2u /* in flow.state_live: its block has a call with a landing pad */

/* The last compare instruction. It counts as long as the flags and the compared operands are unchanged. */
struct compared {
	uint8_t op; /* STEP_COMPARE, STEP_LIMIT, or STEP_NONE */
	uint8_t a, b, size;
	uint8_t killed_by; /* EFFECT_* of the instructions that may invalidate this record; if the compare has a memory
	                      operand, EFFECT_ALL */
	uint16_t watch;    /* mask of the registers on which this record depends */
	int32_t disp;
	int64_t imm;
	/* A bound of a value in memory: the `size` bytes at base + disp are at most `most`, unsigned. It is kept since gcc
	 * compares a value in memory and loads it afterwards. size 0: there is no bound. */
	struct {
		uint8_t base, size;
		int32_t disp;
		int64_t most;
	} bound;
};

/* Returns the number of bytes of the code range. */
static inline uint64_t flow_size(const struct flow *f) { return f->in.range->end - f->in.range->start; }

static inline bool flow_inside(const struct flow *f, uint64_t addr)
{
	return addr >= f->in.range->start && addr < f->in.range->end;
}
/* Returns true if an address lies inside a decoded instruction and no decoded instruction begins at the address. */
static inline bool flow_hidden(const struct flow *f, uint64_t addr)
{
	uint64_t off = addr - f->in.range->start, back;

	for (back = 1; back <= off && back < STEP_LEN_MOST; back++)
		if (f->at[off - back] && f->steps[f->at[off - back] - 1].len > back)
			return !f->at[off];
	return false;
}
/* Returns the number of bytes that an instruction pushes, or FLOW_NOT_PUSHED if it changes rsp in another way. */
#define FLOW_NOT_PUSHED INT64_MIN
static inline int64_t flow_pushed(const struct step *s)
{
	if (s->op == STEP_PUSH || s->op == STEP_PUSH2)
		return s->imm;
	if ((s->op == STEP_POP && s->a != ETCH_REG_RSP) || s->op == STEP_POP2 ||
	    (s->op == STEP_ADD && s->a == ETCH_REG_RSP))
		return -s->imm;
	if (s->op == STEP_ADDRESS && s->a == ETCH_REG_RSP && s->b == ETCH_REG_RSP)
		return -s->disp;
	/* The change that an op itself describes is not in `writes`. */
	if (s->op == STEP_LEAVE || s->op == STEP_ENTER || (s->op == STEP_SWAP && s->b == ETCH_REG_RSP))
		return FLOW_NOT_PUSHED;
	return s->a == ETCH_REG_RSP || s->writes >> ETCH_REG_RSP & 1 ? FLOW_NOT_PUSHED : 0;
}
/* Returns the offset of the decoded instruction that ends at an offset, or that offset itself if there is none. */
static inline uint64_t flow_previous(const struct flow *f, uint64_t off)
{
	uint64_t back = 1;

	while (back <= off && back < STEP_LEN_MOST && !f->at[off - back])
		back++;
	return back <= off && f->at[off - back] && f->steps[f->at[off - back] - 1].len == back ? off - back : off;
}
/* Is an instruction a call of a helper inside the code range? A target in the middle of another instruction does not
 * count: it is taken for a separate function. */
static inline bool flow_calls_inside(const struct flow *f, const struct step *in)
{
	uint64_t to = (uint64_t)in->imm;

	return in->flow == FLOW_CALL && flow_inside(f, to) && to != f->in.range->start && !flow_hidden(f, to);
}
/* Does an instruction that the walk has reached with a state begin at an offset? */
static inline bool flow_walked(const struct flow *f, uint64_t off)
{
	return f->at[off] && (f->seen[f->at[off] - 1] & FLOW_WALKED);
}
/* Returns the walked instruction that ends at an offset, or null. */
static inline const struct step *flow_step_before(const struct flow *f, uint64_t off)
{
	uint64_t back;

	for (back = 1; back <= off && back <= STEP_LEN_MOST; back++) {
		uint32_t i = f->at[off - back];

		if (i && f->steps[i - 1].len == back && (f->seen[i - 1] & FLOW_WALKED))
			return &f->steps[i - 1];
	}
	return NULL;
}
/* Must the analysis of the code range follow constants, as for a jump table? */
static inline bool flow_needs_constants(const struct flow *f) { return f->walk.effects & EFFECT_NEEDS_CONSTANT; }
/* Is the instruction a system call that ends the thread or process? */
static inline bool flow_is_exit(const struct step *in, const struct state *s)
{
	return in->op == STEP_SYSCALL && s->reg[in->a].kind == VALUE_CONST && STEP_IS_EXIT(s->reg[in->a].off);
}

/* flow_run.c: returns the row of .eh_frame for an address of the code range, or null. */
const struct etch_cfi_row *flow_cfi_at(const struct flow *f, uint64_t addr);

/* flow_run.c: resets *f for a code range. Returns false if the range is 4 GiB or larger. */
bool flow_prepare(struct flow *f, const struct flow_env *env, uint32_t number);

/* flow_reach.c */
/* flow_step() returns the index of the step at an offset, which it decodes if necessary, or NO_STEP if the bytes there
 * do not decode. flow_step_new() does this for an offset at which no step has been decoded. */
uint32_t flow_step_new(struct flow *f, uint64_t off);
static inline uint32_t flow_step(struct flow *f, uint64_t off)
{
	if (off >= flow_size(f))
		return NO_STEP;
	return f->at[off] ? f->at[off] - 1 : flow_step_new(f, off);
}
/* Makes the instruction at an offset the leader of a basic block. Returns the index of its step, or NO_STEP. */
uint32_t flow_leader(struct flow *f, uint64_t off);
/* Decodes everything that is reachable from an offset and not yet decoded. */
void flow_reach(struct flow *f, uint64_t off);

/* flow_walk.c */
/* Puts the basic block whose state has index `state` into the worklist. */
void flow_queue(struct flow *f, uint32_t state);
/* Lets control enter the code range at addr in state s: joins s into the state there, and decodes all code that is
 * reachable from addr. flow_walk() then propagates the states of all such entries to the fixpoint. */
void flow_enter(struct flow *f, uint64_t addr, const struct state *s);
void flow_walk(struct flow *f);
/* Records in the results that control reaches bytes at an offset that do not decode. s is the state before the
 * instruction from which control comes. */
void flow_breaks(struct flow *f, uint64_t off, const struct state *s);
/* Walks the landing pads. Called after flow_walk(), which finds flow.walk.pad_depth. */
void flow_walk_pads(struct flow *f);
/* Walks the code that only returns of noreturn calls would reach, in states that are dead (state.dead). */
void flow_dead_follow(struct flow *f);

/* flow_run.c */
/* Returns the target of a call or jump, as in flow_exit.target, or 0 if the instruction alone does not tell. */
uint64_t flow_exit_target(const struct step *s);
/* Does a call return to the next instruction, judging by all that is known about its target? */
bool flow_comes_back(const struct flow *f, const struct step *s);
/* Is the target of a call or jump known not to return? */
bool flow_is_noreturn(const struct flow *f, const struct step *s);
/* Returns the landing pad of the instruction at an address, or 0. */
uint64_t flow_pad_of(const struct flow *f, uint64_t addr);
/* Can a jump to a target outside of the code range be a tail call, in any state? flow_is_tail_call(): is it one in
 * state s? */
bool flow_may_tail_call(const struct flow *f, uint64_t target);
bool flow_is_tail_call(const struct flow *f, uint64_t target, const struct state *s);
void flow_exit_add(struct flow *f, uint64_t target, unsigned kind);
/* Returns the entry of etch's exception table for the instruction at an address, or null. */
const struct fixup *flow_fixup_of(const struct flow *f, uint64_t addr);
/* Returns the next entry after x for the same instruction, or null. Only patched_edges_add() makes several entries for
 * one. */
const struct fixup *flow_fixup_next(const struct flow *f, const struct fixup *x);
/* Makes the state of an unknown frame: rsp is the base of a realigned frame, and nothing else is known. */
void flow_unknown_state(struct state *s);
/* Makes the state at the fixup of an instruction that faults. */
void flow_fault(const struct fixup *x, const struct step *in, const struct state *before, struct state *out);
/* Makes the state at the landing pad of a call that throws. */
void flow_land(const struct flow *f, const struct state *call, struct state *out);
/* exits.c */
/* Adds an edge out of the code range. Edges to the same target are joined into one. */
struct flow_edge *flow_edge_add(struct flow *f, uint64_t target, const struct state *s);
/* Adds the exits and edges of an instruction to the results, and sets those results that they decide. `before` is the
 * state before the instruction. `after` is set if only padding lies between a call and this instruction. */
void flow_exits_note(struct flow *f, uint64_t off, const struct step *in, const struct state *before, bool after);
/* Adds the edges out of the code range that NOTE_EDGE gives to the instruction at an address. */
void flow_edges_note(struct flow *f, uint64_t addr, const struct state *before);
/* Adds the edges or exits from the instruction at an address to its fixups, where these are outside of the code
 * range. */
void flow_fault_note(struct flow *f, uint64_t addr, const struct step *in, const struct state *before);

/* advance.c */
/* Transforms the state before the instruction at `off` into the one after it, on the fall-through edge. */
void flow_advance_slowly(const struct step *in, struct state *s, uint32_t off, struct compared *c);
/* Checks flow_idle() in builds with ETCH_CHECK_STEPS: aborts if the instruction does change something. */
void flow_idle_check(const struct step *in, const struct state *s, const struct compared *c);
/* Can an instruction be skipped, because neither the state nor the last compare depends on anything that it touches, or
 * because it leaves both as they are? This is so for most instructions. (The registers that it writes are among
 * in->touches.) */
static inline bool flow_idle(const struct step *in, const struct state *s, const struct compared *c)
{
	bool idle = !((in->touches & c->watch) | (in->effects & (c->killed_by | s->constants | EFFECT_CONTROL))) &&
	            (!(in->touches & s->known) || state_passes(s, in));

#ifdef ETCH_CHECK_STEPS
	if (idle)
		flow_idle_check(in, s, c);
#endif
	return idle;
}
/* Given a branch that is not taken: does it leave the state and the last compare as they are? */
static inline bool flow_passes_branch(const struct step *in, const struct compared *c)
{
	return c->op == STEP_NONE && !in->writes;
}
static inline void flow_advance(const struct step *in, struct state *s, uint32_t off, struct compared *c)
{
	if (!flow_idle(in, s, c) && !(in->flow == FLOW_BRANCH && flow_passes_branch(in, c)))
		flow_advance_slowly(in, s, off, c);
}

/* Transforms the state as flow_advance() does. Returns true if the unwind rule is certainly the same as before. */
bool flow_advance_same(const struct step *in, struct state *s, uint32_t off, struct compared *c);
/* Transforms the state before a branch into the one on its taken edge. */
void flow_branch_taken(const struct step *in, struct state *s, uint32_t off, const struct compared *c);
/* May the outcome of a branch with condition `cond` after compare c refine the state? */
bool flow_may_learn(const struct compared *c, unsigned cond, const struct state *s);

/* ends.c: is a call the last instruction of its function? `off` is the offset after the call. Only padding may follow.
 * If the code range is open, the padding must either reach the end of the range, or end at an aligned address where a
 * function seems to begin or, after PADDING_LOOP bytes or more, may begin; or the callee itself must begin at `off`. In
 * an open range that is outermost, a noreturn call is always the last one, unless hlt follows. */
bool flow_is_end(struct flow *f, const struct step *call, uint64_t off);
/* Does the code range begin with a prologue, at an address that is aligned for functions? */
bool flow_begins(struct flow *f);
/*
 * Does the code range begin by using a value in a callee-saved register, in r10 or r11, or on the stack that it has not
 * set? A function must not begin so (psABI 3.2.1). The targets of an interpreter's computed goto and parts of other
 * functions do, since they run in a frame that they have not set up. Call after flow_states().
 */
bool flow_begins_framed(struct flow *f);
/* Given that a call of the code at an offset directly precedes this code: does the code read or pop the return address
 * that the call has pushed? Then the call only serves to obtain its own address. */
bool flow_uses_return_address(struct flow *f, uint64_t off);

/* ends.c: is a call target inside an open code range a helper in the middle of the calling function? */
bool flow_is_helper(struct flow *f, uint64_t target);

/* taken_addresses.c */
/* May the immediate or the rip-relative displacement of an instruction be an address that the instruction puts in a
 * register or in memory? */
bool flow_takes_address(const struct flow *f, const struct step *in);
/* Adds an EXIT_REF for `addr`, which the instruction at an offset computes, and which may be the address of a function.
 * The caller has checked addr by space_may_hold(). */
void flow_ref_note(struct flow *f, uint64_t off, uint64_t addr);
/* Adds an EXIT_REF for each address that the code computes from an address of its own, which it has obtained by a call
 * of the next instruction. */
void flow_labels_note(struct flow *f);
/* If the instruction at an offset passes on the address of a continuation (struct flow_continuation), adds the edges to
 * that continuation. */
void flow_continuation_note(struct flow *f, uint64_t off, const struct state *before);

/* tails.c: is the register of a jump at an offset loaded from memory just before it? Then *out is that load. */
bool flow_loaded(const struct flow *f, uint64_t off, unsigned reg, struct insn *out);

/* traps.c: flow_trap() returns the address of the exception handler that the instruction at an offset links into the
 * runtime's list, or 0. flow_trap_state() makes the state at that handler from the state before this instruction. */
uint64_t flow_trap(const struct flow *f, const struct step *head, uint64_t off);
void flow_trap_state(const struct flow *f, const struct state *head, uint64_t handler, struct state *out);

/* handlers.c */
/* Does a state prove that the frame is the one in which an interpreter's handlers begin (state_handler())? */
bool flow_has_frame(const struct state *s);
/* Sets the results that concern handlers: flow_result.dispatch and dispatch_otherwise by an indirect jump, and
 * keeps_frame and breaks_frame by an instruction of a handler. */
void flow_handler_note(struct flow *f, uint64_t off, const struct step *in, const struct state *before);

/* flow_notes.c: the effects of notes (facts/notes.h) on the analysis. These functions are only called for files that
 * have notes. */
/* Sets in->notes. Returns true if some instruction of the range has an edge of its own. */
bool flow_notes_find(struct flow_input *in);
/* Adjusts a decoded step at addr to the notes there. */
void flow_note_step(struct flow *f, struct step *s, uint64_t addr);
/* Does a note say that a call is only a push and a jump? Then *out becomes the state at its target. */
bool flow_note_pushes(const struct flow *f, const struct step *call, uint64_t addr, const struct state *s,
                      struct state *out);
/* Does a note say that the frame at an address is the one at a function's start, whatever code leads there? */
bool flow_note_begins(const struct flow *f, uint64_t addr);
/* Does a note fix the state of block k, so that the state that is now being passed to the block must be ignored? */
bool flow_note_bars(const struct flow *f, uint32_t k);
/* Lets control enter the range at each address for which notes give a frame. Called before all other entries, so that
 * these cannot change the frame there. */
void flow_note_enter(struct flow *f);

/* tails.c: is an indirect jump a tail call, in code whose callers find their frames by rbp? */
bool flow_jump_is_tail(const struct flow *f, const struct flow_jump *j);

/* jumps.c */
/* Discards the join in flow.walk.agreed if it includes the indirect jump with index `jump`, whose state has changed. */
static inline void flow_agreed_undo(struct flow *f, size_t jump)
{
	if (jump < f->walk.agreed.upto) {
		f->walk.agreed.upto = 0;
		f->walk.agreed.some = f->walk.agreed.differ = false;
	}
}
/* Follows the jump tables that the analysis understands. Then enters the code that nothing else reaches: if the
 * indirect jumps without such a table agree on a state, in that state, marked as weak, so that it never wins over
 * .eh_frame. If they disagree, this code gets no state. */
void jumps_follow(struct flow *f);
/* Does .eh_frame contradict the jump's state at a target in another code range? Then the entry may lie beyond the
 * table's end, and the table is not followed. (If the target is in the cold part of the same function, .eh_frame and
 * the state agree.) */
bool flow_lands_wrong(const struct flow *f, const struct flow_jump *j, uint64_t target);
/* Returns the target of entry i of a jump table of this code range, or 0 if the entry is not in the file. */
uint64_t jump_table_target(const struct flow *f, const struct value *t, unsigned i);
/* Returns the target of entry i of a jump table of code range `p`, or 0 if the entry is not in the file. Needs no
 * struct flow. */
uint64_t jump_table_entry(const struct flow_env *env, const struct code_range *p, const struct value *t, unsigned i);

#endif
