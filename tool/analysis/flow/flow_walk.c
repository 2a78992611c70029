/* SPDX-License-Identifier: MIT */
/* The second pass over a code range: propagates states along the edges between basic blocks, to the fixpoint. */
#include "analysis/dataflow/solver.h"
#include "analysis/flow/flow_internal.h"
#include "support/memory.h"

#include <string.h>

/*
 * Is the state `weak` to be ignored in favour of `proven`, instead of being joined with it? That is so if it is weak
 * (state.weak), `proven` is not, and the range has symbols, so that one FDE may cover several functions. Then the weak
 * path may begin in data, or in code that is never executed, and have the frame of another function.
 */
static bool is_outweighed(const struct flow *f, const struct state *weak, const struct state *proven)
{
	return weak->weak > proven->weak && f->in.range->entry_count;
}

/* Joins a state into the state of block k. Returns true if that has changed. */
static inline __attribute__((always_inline)) bool block_join(void *ctx, uint32_t k, const void *state)
{
	struct flow *f = ctx;
	const struct state *s = state;

	if (__builtin_expect(f->in.noted, 0) && flow_note_bars(f, k))
		return false;
	if (!(f->state_live[k] & LIVE) || is_outweighed(f, &f->states[k], s)) {
		state_copy(&f->states[k], s);
		if (f->found.no_constants && f->states[k].constants)
			state_drop_constants(&f->states[k]);
		f->states[k].abi_flags = f->in.abi_flags;
		f->state_live[k] |= LIVE;
		return true;
	}
	if (s->dead && !f->states[k].dead)
		return false; /* a dead path adds nothing to live code */
	return !is_outweighed(f, s, &f->states[k]) && state_join(&f->states[k], s);
}

/* Returns the offset of block k: blocks are walked in order of address. */
static uint32_t block_rank(const void *ctx, uint32_t k)
{
	const struct flow *f = ctx;

	return f->step_at[f->step_of_state[k]];
}

/* Is it useless to continue the walk? It is if constants are needed but the walk does not follow them: flow_run() then
 * walks the range again with constants. */
static bool walk_stops(const void *ctx)
{
	const struct flow *f = ctx;

	return f->found.no_constants && flow_needs_constants(f);
}

static void block_transfer(void *ctx, uint32_t k);
static const struct dataflow_domain blocks = {
	.join = block_join, .transfer = block_transfer, .rank = block_rank, .stops = walk_stops};

void flow_queue(struct flow *f, uint32_t state) { dataflow_visit(&blocks, &f->walk.list, f, state); }

/* Passes a state to the block that step i begins. */
static void reach(struct flow *f, uint32_t i, const struct state *s)
{
	dataflow_pass(&blocks, &f->walk.list, f, f->leader[i] - 1, s);
}

/* Propagates a state along an edge to an address of the code range. */
static void follow(struct flow *f, uint64_t target, const struct state *s)
{
	if (!flow_inside(f, target))
		return; /* exits.c adds the edges out of the range after the fixpoint */
	target -= f->in.range->start;
	if (f->at[target] && f->leader[f->at[target] - 1])
		reach(f, f->at[target] - 1, s);
}

void flow_breaks(struct flow *f, uint64_t off, const struct state *s)
{
	f->found.may_return = f->found.broken = true;
	/* in a weak state, as after a jump that is not followed, these bytes may be a table inside the code */
	if (!s->weak && !f->at[off] && (!f->found.unread || off < f->found.unread - 1) &&
	    insn_is_reserved(f->in.range->bytes + off, flow_size(f) - off))
		f->found.unread = off + 1;
}

/* Propagates a state along a direct jump to an address of the code range. If the target does not decode, records that
 * (flow_breaks()). */
static void follow_jump(struct flow *f, uint64_t target, const struct state *s)
{
	uint32_t i;

	if (!flow_inside(f, target))
		return;
	i = f->at[target - f->in.range->start];
	if (i && f->leader[i - 1])
		reach(f, i - 1, s);
	else if (!i && !s->dead)
		flow_breaks(f, target - f->in.range->start, s);
}

/* Adds an element to flow.jumps. Returns 1 + its index. */
static uint32_t jump_make(struct flow *f)
{
	size_t capacity = f->walk.jump_capacity;

	mem_reserve(&f->jumps, &f->walk.jump_capacity, f->jump_count, sizeof(*f->jumps));
	mem_reserve(&f->walk.table_at, &capacity, f->jump_count, sizeof(*f->walk.table_at));
	memset(&f->jumps[f->jump_count], 0, sizeof(*f->jumps));
	return (uint32_t)++f->jump_count;
}

/* Records the state at an indirect jump, and the jump's table. If the state has changed, jumps_follow() will examine
 * the jump again. */
static void jump_note(struct flow *f, uint32_t step, const struct state *s)
{
	struct step *in = &f->steps[step];
	size_t i;

	if (!in->number)
		in->number = jump_make(f);
	i = in->number - 1;
	if (f->jumps[i].has_state && state_same(&f->jumps[i].state, s))
		return;
	f->walk.jumps_agreed = false;
	flow_agreed_undo(f, i);
	if (!f->jumps[i].is_new) {
		mem_reserve(&f->walk.new_jumps, &f->walk.new_jump_capacity, f->walk.new_jump_count, sizeof(*f->walk.new_jumps));
		f->walk.new_jumps[f->walk.new_jump_count++] = (uint32_t)i;
	}
	f->jumps[i].has_state = f->jumps[i].is_new = true;
	f->jumps[i].step = step;
	state_copy(&f->jumps[i].state, s);
	f->jumps[i].table = state_table(s, in, &f->jumps[i].what);
	f->walk.table_at[i] = f->jumps[i].table ? (uint32_t)f->jumps[i].what.off : 0;
}

/*
 * Does rsp in s, the state after a call, contradict the known rsp of the block that begins after the call? Then the
 * call is noreturn; otherwise the code would be incorrect on one of the paths.
 */
static bool clashes(const struct flow *f, uint32_t step, const struct state *s)
{
	uint32_t k = f->leader[step] - 1;
	struct value mine = s->reg[ETCH_REG_RSP], its = f->states[k].reg[ETCH_REG_RSP];

	return (f->state_live[k] & LIVE) && mine.kind == VALUE_CFA && its.kind == VALUE_CFA && mine.off != its.off;
}

/* Records the code after a noreturn call, with the state at that call, for flow_dead_follow(). */
static void dead_note(struct flow *f, uint32_t off, const struct state *call)
{
	if (off >= flow_size(f))
		return;
	mem_reserve(&f->walk.dead, &f->walk.dead_capacity, f->walk.dead_count, sizeof(*f->walk.dead));
	f->walk.dead[f->walk.dead_count].off = off;
	state_copy(&f->walk.dead[f->walk.dead_count++].state, call);
}

/*
 * An example is the jump that clang puts after a throw. Such code is walked in the state that a return of the call
 * would have, since nothing else leads there. This state is dead, and never changes a state that is not. In open code
 * ranges nothing is walked so, since the code after the call may be another function.
 */
void flow_dead_follow(struct flow *f)
{
	size_t i;

	for (i = f->in.range->open ? 0 : f->walk.dead_count;
	     i-- > 0;) { /* backward: the last state recorded for a call is the final one */
		struct state s;
		uint32_t k;

		if (flow_walked(f, f->walk.dead[i].off))
			continue;
		k = flow_step(f, f->walk.dead[i].off);
		if (k == NO_STEP || f->steps[k].padding)
			continue;
		state_copy(&s, &f->walk.dead[i].state);
		state_call(&s);
		s.weak = s.dead = true;
		flow_enter(f, f->in.range->start + f->walk.dead[i].off, &s);
		flow_walk(f);
	}
}

/* The position of a walk through a basic block, with the state and the last compare there. */
struct walk {
	uint32_t off, from; /* current offset; index in flow.states of the block that is walked */
	bool called;        /* the previous instruction is a call */
	struct compared c;
	struct state s;
};

/* Propagates the state before an instruction along those of its edges that are not control flow: to its landing pad, to
 * its fixups, and to the targets of NOTE_EDGE. */
static void walk_throws(struct flow *f, const struct walk *w, const struct step *in)
{
	bool calls = flow_is_call(in->flow);
	uint64_t addr = f->in.range->start + w->off, pad = f->walk.pad_count && calls ? flow_pad_of(f, addr) : 0;
	const struct fixup *fixup = f->in.fixup_count ? flow_fixup_of(f, addr) : NULL;
	const struct note *note;
	struct state there;

	if (pad && f->walk.pads_deferred) {
		f->state_live[w->from] |= THROWS;
		if (w->s.reg[ETCH_REG_RSP].kind == VALUE_CFA && w->s.reg[ETCH_REG_RSP].off > f->walk.pad_depth)
			f->walk.pad_depth = w->s.reg[ETCH_REG_RSP].off;
	} else if (pad) {
		flow_land(f, &w->s, &there);
		follow(f, pad, &there);
	}
	for (; fixup; fixup = flow_fixup_next(f, fixup))
		if (flow_inside(f, fixup->to)) {
			flow_fault(fixup, in, &w->s, &there);
			follow(f, fixup->to, &there);
		}
	f->walk.by_note = true;
	for (note = note_at(f->in.env->notes, addr, NOTE_EDGE); note_is(f->in.env->notes, note, addr, NOTE_EDGE); note++)
		follow(f, note->to, &w->s);
	f->walk.by_note = false;
}

/*
 * Propagates a state along a branch's taken edge. Returns false if this has changed the state of the very block that is
 * being walked. Then this walk has to end: the block is walked again, and code after the loop must not get the state of
 * the first iteration alone. In a loop that probes the stack by pages (-fstack-clash-protection), rsp differs per
 * iteration, and only the final compare, applied to the joined state, gives rsp after the loop.
 */
static bool walk_branch(struct flow *f, const struct walk *w, const struct step *in)
{
	struct state taken;

	if (!in->writes && !flow_may_learn(&w->c, in->cond, &w->s)) {
		follow_jump(f, (uint64_t)in->imm, &w->s);
	} else {
		state_copy(&taken, &w->s);
		flow_branch_taken(in, &taken, w->off, &w->c);
		follow_jump(f, (uint64_t)in->imm, &taken);
	}
	return !worklist_has(&f->walk.list, w->from);
}

/*
 * Does a call inside the code range only serve as a push and a jump? Some compilers push the address of an exception
 * handler this way: the handler lies after the call, and control continues at the target in the same frame. .eh_frame
 * shows it if the CFA at the target is the CFA at the call, with rsp one word lower; at a function's start the CFA
 * would be rsp + 8. The target also shows it if it pops the pushed address at once: then data lies after the call, or
 * code that is entered in another way. *out becomes the state at the target.
 */
static bool pushes_on(const struct flow *f, const struct state *call, const struct step *in, struct state *out)
{
	const struct etch_cfi_row *row = flow_cfi_at(f, (uint64_t)in->imm);
	const struct step push = {.op = STEP_PUSH, .a = INSN_NO_REG, .imm = 8, .effects = EFFECT_OTHER};
	struct etch_rule mine;

	state_copy(out, call);
	state_transfer(out, &push, 0);
	if (code_pops_return_address(f->in.range, (uint64_t)in->imm - f->in.range->start))
		return true;
	if (!row || row->rule.kind != ETCH_RULE_CALL || call->reg[ETCH_REG_RSP].kind != VALUE_CFA)
		return false;
	state_rule(out, &mine);
	return mine.kind == row->rule.kind && mine.cfa == row->rule.cfa && mine.cfa_off == row->rule.cfa_off &&
	       row->rule.cfa == ETCH_REG_RSP;
}

/* Handles a call: if its target is inside the code range, propagates a state there. Returns true if the call returns to
 * the next instruction. */
static bool walk_call(struct flow *f, const struct walk *w, const struct step *in)
{
	uint32_t after = w->off + in->len;
	struct state there;

	if (f->in.noted && flow_note_pushes(f, in, f->in.range->start + w->off, &w->s, &there)) {
		follow(f, (uint64_t)in->imm, &there);
		return false;
	}
	if (flow_calls_inside(f, in)) {
		if (pushes_on(f, &w->s, in, &there)) {
			follow(f, (uint64_t)in->imm, &there);
		} else {
			f->walk.has_helpers = true;
			follow(f, (uint64_t)in->imm, &state_at_entry);
		}
	}
	if (flow_comes_back(f, in))
		return !(f->in.range->open && flow_is_end(f, in, after));
	dead_note(f, after, &w->s);
	return false;
}

/* If an instruction that saves rsp installs an exception handler (traps.c), lets control enter that handler. */
static void walk_trap(struct flow *f, const struct walk *w, uint32_t number)
{
	uint64_t handler = flow_trap(f, &f->steps[number], w->off);
	struct state s;

	if (!handler || w->s.reg[ETCH_REG_RSP].kind != VALUE_CFA)
		return;
	f->walk.has_traps = true;
	flow_trap_state(f, &w->s, handler, &s);
	flow_enter(f, handler, &s);
}

/* Advances the walk over an instruction with FLOW_NEXT. Returns false if the instruction ends the thread or process. */
static inline bool walk_next(struct flow *f, struct walk *w, uint32_t number)
{
	const struct step *in = &f->steps[number];
	bool copies_sp = in->a == ETCH_REG_RSP && in->op == STEP_STORE;

	if (flow_is_exit(in, &w->s))
		return false;
	copies_sp |= in->op == STEP_MOVE && in->b == ETCH_REG_RSP;
	if (!flow_advance_same(in, &w->s, w->off, &w->c))
		f->seen[number] |= FLOW_MOVES;
	if (copies_sp)
		walk_trap(f, w, number);
	return true;
}

/* A jump out of the code range that is no tail call leads to a part of the function, which may need constants. */
static inline void walk_outside(struct flow *f, uint64_t target, const struct state *s)
{
	if (!flow_inside(f, target) && !flow_is_tail_call(f, target, s))
		f->walk.effects |= EFFECT_NEEDS_CONSTANT;
}

/* Advances the walk over a control-flow instruction. Returns false if control does not go on to the next instruction,
 * or if the walk has to end (walk_branch()). */
static bool walk_way(struct flow *f, struct walk *w, uint32_t number)
{
	struct step in = f->steps[number]; /* the list may move */

	switch (in.flow) {
	case FLOW_BRANCH:
		if (!walk_branch(f, w, &in))
			return false;
		if (flow_passes_branch(&in, &w->c))
			return true;
		break;
	case FLOW_JUMP:
		walk_outside(f, (uint64_t)in.imm, &w->s);
		follow_jump(f, (uint64_t)in.imm, &w->s);
		return false;
	case FLOW_JUMP_IND: jump_note(f, number, &w->s); return false;
	case FLOW_RETURN:
	case FLOW_STOP: return false;
	case FLOW_CALL:
	case FLOW_CALL_IND:
		if (!walk_call(f, w, &in))
			return false;
		w->called = true;
		break;
	default: break;
	}
	if (!flow_advance_same(&in, &w->s, w->off, &w->c))
		f->seen[number] |= FLOW_MOVES;
	return true;
}

/* Walks basic block k from its leader, and passes the state at its end to the block that follows. */
static void block_transfer(void *ctx, uint32_t k)
{
	struct flow *f = ctx;
	uint32_t start = block_rank(f, k);
	uint64_t size = flow_size(f);
	bool throws = f->walk.pad_count || f->in.throws, on = true;
	struct walk w;
	uint32_t at;

	w.off = start;
	w.from = k;
	w.called = false;
	w.c = (struct compared){0};
	while (w.off < size && (at = f->at[w.off]) != 0) { /* this loop takes much of the run time */
		uint32_t i = at - 1;
		const struct step *in = &f->steps[i];
		unsigned len = in->len;

		if (f->leader[i]) {
			if (w.off != start) {
				if (!w.called || !clashes(f, i, &w.s))
					reach(f, i, &w.s);
				break;
			}
			state_copy(&w.s, &f->states[k]);
		}
		f->seen[i] = (uint8_t)((f->seen[i] | FLOW_WALKED | FLOW_IDLE) & ~FLOW_MOVES);
		w.called = false;
		if (throws)
			walk_throws(f, &w, in);
		if (!flow_idle(in, &w.s, &w.c)) {
			f->seen[i] &= (uint8_t)~FLOW_IDLE;
			on = in->flow == FLOW_NEXT ? walk_next(f, &w, i) : walk_way(f, &w, i);
		}
		w.off += len;
		if (!on)
			break;
	}
	if (w.off != start && w.off > f->found.extent)
		f->found.extent = w.off;
}

void flow_walk(struct flow *f)
{
	size_t i;

	if (f->walk.dirty) { /* set by walked_again() */
		f->walk.dirty = false;
		for (i = 0; i < f->state_count; i++)
			if (f->state_live[i] & LIVE)
				flow_queue(f, (uint32_t)i);
	}
	dataflow_solve(&blocks, &f->walk.list, f);
}

/* Walks again those blocks which have throwing calls, since flow.walk.pad_depth is now final. */
void flow_walk_pads(struct flow *f)
{
	size_t i;

	f->walk.pads_deferred = false;
	for (i = 0; i < f->state_count; i++)
		if (f->state_live[i] & THROWS)
			flow_queue(f, (uint32_t)i);
	flow_walk(f);
}

void flow_enter(struct flow *f, uint64_t addr, const struct state *s)
{
	uint32_t i = flow_leader(f, addr - f->in.range->start);

	if (i == NO_STEP)
		return;
	flow_reach(f, addr - f->in.range->start);
	reach(f, i, s);
}
