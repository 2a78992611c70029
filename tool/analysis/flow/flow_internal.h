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

/* The last compare, as long as the flags and the compared operands are unchanged. */
struct compared {
	uint8_t op; /* STEP_COMPARE, STEP_LIMIT, or STEP_NONE */
	uint8_t a, b, size;
	uint8_t killed_by; /* EFFECT_* of the instructions that may invalidate it; with a memory operand, EFFECT_ALL */
	uint16_t watch;    /* mask of the registers on which it depends */
	int32_t disp;
	int64_t imm;
	/* The memory at base + disp, of `size` bytes, holds at most `most`, unsigned: gcc compares in memory what it loads
	 * afterwards. size 0: there is no bound. */
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
/* Does an address lie inside a decoded instruction, and no decoded instruction begin there? */
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
/* Is it a call of a helper inside the code range? If the target lies inside another instruction, it is a function of
 * its own. */
static inline bool flow_calls_inside(const struct flow *f, const struct step *in)
{
	uint64_t to = (uint64_t)in->imm;

	return in->flow == FLOW_CALL && flow_inside(f, to) && to != f->in.range->start && !flow_hidden(f, to);
}
/* Has a state reached the instruction at an offset? */
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
/* Does the code range need constants, as it does for a jump table? */
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
/* flow_step() returns the index of the step at an offset, decoding it on demand, or NO_STEP if it does not decode. */
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
/* Puts the block of a state into the worklist. */
void flow_queue(struct flow *f, uint32_t state);
/* Adds an entry of the code range with a state, and decodes what it reaches. flow_walk() then propagates states to the
 * fixpoint. */
void flow_enter(struct flow *f, uint64_t addr, const struct state *s);
void flow_walk(struct flow *f);
/* Notes that control reaches bytes at an offset that do not decode, from an instruction whose state is s. */
void flow_breaks(struct flow *f, uint64_t off, const struct state *s);
/* Walks the landing pads. Called after flow_walk(), which has found pad_depth. */
void flow_walk_pads(struct flow *f);
/* Walks the code that only follows noreturn calls. */
void flow_dead_follow(struct flow *f);

/* flow_run.c */
/* Returns the target of a call or jump, as in flow_exit.target, or 0 if the instruction alone does not tell. */
uint64_t flow_exit_target(const struct step *s);
/* Does a call return to the next instruction, by what is known of its target? */
bool flow_comes_back(const struct flow *f, const struct step *s);
/* Is the target of a call or jump known not to return? */
bool flow_is_noreturn(const struct flow *f, const struct step *s);
/* Returns the landing pad of the instruction at an address, or 0. */
uint64_t flow_pad_of(const struct flow *f, uint64_t addr);
/* Is a jump to a target outside of the code range a tail call: in some state; in state s? */
bool flow_may_tail_call(const struct flow *f, uint64_t target);
bool flow_is_tail_call(const struct flow *f, uint64_t target, const struct state *s);
void flow_exit_add(struct flow *f, uint64_t target, unsigned kind);
/* Returns the entry of etch's exception table for the instruction at an address, or null. */
const struct fixup *flow_fixup_of(const struct flow *f, uint64_t addr);
/* Returns the next entry after x for the same instruction, which patched_edges_add() has made, or null. */
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
/* Adds the exits and edges of an instruction, and what they tell of the code range. `after`: only padding lies between
 * a call and this instruction. */
void flow_exits_note(struct flow *f, uint64_t off, const struct step *in, const struct state *before, bool after);
/* Adds the edges out of the code range that come from NOTE_EDGE. */
void flow_edges_note(struct flow *f, uint64_t addr, const struct state *before);
/* Adds the exit of an instruction whose fixup is outside of the code range. */
void flow_fault_note(struct flow *f, uint64_t addr, const struct step *in, const struct state *before);

/* advance.c */
/* Transforms the state before the instruction at `off` into the one after it, on the fall-through edge. */
void flow_advance_slowly(const struct step *in, struct state *s, uint32_t off, struct compared *c);
/* Checks flow_idle() in builds with ETCH_CHECK_STEPS: aborts if the instruction does change something. */
void flow_idle_check(const struct step *in, const struct state *s, const struct compared *c);
/* Can the instruction be skipped, because neither the state nor the last compare depends on what it touches? That is
 * true of most. (The registers that it writes are among in->touches.) */
static inline bool flow_idle(const struct step *in, const struct state *s, const struct compared *c)
{
	bool idle =
		!((in->touches & (s->known | c->watch)) | (in->effects & (c->killed_by | s->constants | EFFECT_CONTROL)));

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

/* Does what flow_advance() does, and returns whether the unwind rule is certainly the same as before. */
bool flow_advance_same(const struct step *in, struct state *s, uint32_t off, struct compared *c);
/* Transforms the state before a branch into the one on its taken edge. */
void flow_branch_taken(const struct step *in, struct state *s, uint32_t off, const struct compared *c);
/* May the outcome of a branch with condition `cond` refine the state? */
bool flow_may_learn(const struct compared *c, unsigned cond, const struct state *s);

/* ends.c: is a call the last instruction of its function, with only padding after it (at `off`)? In an open code range
 * the padding must be in front of what looks like a function's start, or directly in front of the callee. */
bool flow_is_end(struct flow *f, const struct step *call, uint64_t off);
/* Does the code range begin with a prologue, at an address that is aligned for functions? */
bool flow_begins(struct flow *f);
/*
 * Does the code range begin by using a value in a callee-saved register, r10, r11 or the stack that it has not set? A
 * function's entry must not (psABI 3.2.1). The targets of an interpreter's computed goto and parts of other functions
 * do, since they run in a frame that they have not set up. Call after flow_states().
 */
bool flow_begins_framed(struct flow *f);
/* Does the code at an offset read or pop the return address that a call of this very offset, just before, has pushed?
 * Then that call only obtains its own address. */
bool flow_uses_return_address(struct flow *f, uint64_t off);

/* ends.c: is a call target inside an open code range a helper in the middle of the calling function? */
bool flow_is_helper(struct flow *f, uint64_t target);

/* taken_addresses.c */
/* May the immediate or rip-relative displacement of an instruction be an address that it takes? */
bool flow_takes_address(const struct flow *f, const struct step *in);
/* Adds an exit for an address that is taken at an offset, perhaps that of a function. space_may_hold() must be true of
 * it. */
void flow_ref_note(struct flow *f, uint64_t off, uint64_t addr);
/* Notes the addresses that the code takes relative to one of its own, which it has from a call of the next
 * instruction. */
void flow_labels_note(struct flow *f);
/* Adds the edges to the continuation that the instruction at an offset passes on, if it is one that does. */
void flow_continuation_note(struct flow *f, uint64_t off, const struct state *before);

/* tails.c: is the register of a jump at an offset loaded from memory just before it? Then *out is that load. */
bool flow_loaded(const struct flow *f, uint64_t off, unsigned reg, struct insn *out);

/* traps.c: return the address of the exception handler that the instruction at an offset links into the runtime's list,
 * or 0; and make the state at that handler from the state before this instruction. */
uint64_t flow_trap(const struct flow *f, const struct step *head, uint64_t off);
void flow_trap_state(const struct flow *f, const struct state *head, uint64_t handler, struct state *out);

/* handlers.c */
/* Does a state prove the frame in which handlers begin (state_handler())? */
bool flow_has_frame(const struct state *s);
/* Adds to the results what an instruction shows of a handler's frame, or of the dispatch to handlers. */
void flow_handler_note(struct flow *f, uint64_t off, const struct step *in, const struct state *before);

/* flow_notes.c: the changes that notes make (facts/notes.h); only for files that have some. */
/* Sets in->notes. Returns true if some instruction of the range has an edge of its own. */
bool flow_notes_find(struct flow_input *in);
/* Adjusts a decoded step. */
void flow_note_step(struct flow *f, struct step *s, uint64_t addr);
/* Is a call only a push and a jump? Then *out is the state at its target. */
bool flow_note_pushes(const struct flow *f, const struct step *call, uint64_t addr, const struct state *s,
                      struct state *out);
/* Does a note say that the frame at an address is that at a function's start, whatever leads there? */
bool flow_note_begins(const struct flow *f, uint64_t addr);
/* Does a note fix the state of block k, so that the one that is being passed to the block does not count? */
bool flow_note_bars(const struct flow *f, uint32_t k);
/* Enters the range where notes give a frame. Called before all other entries, which then cannot change that frame. */
void flow_note_enter(struct flow *f);

/* tails.c: is an indirect jump a tail call, in code whose callers find their frames by rbp? */
bool flow_jump_is_tail(const struct flow *f, const struct flow_jump *j);

/* jumps.c */
/* Restarts the join over the indirect jumps if it includes this jump, whose state has changed. */
static inline void flow_agreed_undo(struct flow *f, size_t jump)
{
	if (jump < f->walk.agreed.upto) {
		f->walk.agreed.upto = 0;
		f->walk.agreed.some = f->walk.agreed.differ = false;
	}
}
/* Follows the jump tables that are understood. Code that nothing else reaches is then entered in the state on which the
 * other indirect jumps agree, as a weak state, which never wins over .eh_frame. Where they disagree, the code has no
 * state. */
void jumps_follow(struct flow *f);
/* Does .eh_frame contradict the jump's state at a target in another code range? Then the entry may lie beyond the
 * table's end, and the table is not followed. (In the cold part of the same function, both agree.) */
bool flow_lands_wrong(const struct flow *f, const struct flow_jump *j, uint64_t target);
/* Returns the target of entry i of a jump table of this code range, or 0 if the entry is not in the file. */
uint64_t jump_table_target(const struct flow *f, const struct value *t, unsigned i);
/* Does the same for a jump in code range `p`, without a struct flow. */
uint64_t jump_table_entry(const struct flow_env *env, const struct code_range *p, const struct value *t, unsigned i);

#endif
