/* SPDX-License-Identifier: MIT */
/* The second pass: states, taken along all that is reached until nothing changes. */
#include "code/flow_parts.h"
#include "code/vector.h"

#include <string.h>

static void reach(struct flow *f, uint32_t i, const struct state *s)
{
	uint32_t k = f->leader[i] - 1;

	if (!(f->state_live[k] & LIVE)) {
		state_copy(&f->states[k], s);
		if (f->plain && f->states[k].numbers)
			state_plain(&f->states[k]);
		f->state_live[k] |= LIVE;
		flow_queue(f, k);
	} else if (s->dead && !f->states[k].dead) {
		return; /* it has nothing to say to code that is alive */
	} else if (state_merge(&f->states[k], s)) {
		flow_queue(f, k);
	}
}

static void follow(struct flow *f, uint64_t target, const struct state *s)
{
	if (!flow_inside(f, target))
		return; /* exits.c, once all states are final */
	target -= f->piece->start;
	if (target < f->at_room && f->at[target] && f->leader[f->at[target] - 1])
		reach(f, f->at[target] - 1, s);
}

/* A jump says where it leads. Where that does not decode: who knows. */
static void follow_jump(struct flow *f, uint64_t target, const struct state *s)
{
	follow(f, target, s);
	if (flow_inside(f, target) && !f->at[target - f->piece->start] && !s->dead)
		f->returns = f->broken = true;
}

/* A new indirect jump; its number + 1, or 0. */
static uint32_t jump_make(struct flow *f)
{
	size_t room = f->jump_room;

	if (!room_make(&f->jumps, &f->jump_room, f->jump_count, sizeof(*f->jumps)) ||
	    (room != f->jump_room && !room_make(&f->table_at, &room, room, sizeof(*f->table_at)))) {
		f->failed = true;
		return 0;
	}
	memset(&f->jumps[f->jump_count], 0, sizeof(*f->jumps));
	return (uint32_t)++f->jump_count;
}

static void jump_note(struct flow *f, uint32_t step, const struct state *s)
{
	struct step *in = &f->steps[step];
	size_t i = in->number ? in->number : (in->number = jump_make(f));

	if (!i--)
		return;
	if (f->jumps[i].noted && state_same(&f->jumps[i].state, s))
		return;
	f->jumps_agreed = false;
	flow_agreed_undo(f, i);
	if (!f->jumps[i].fresh && !room_make(&f->fresh_jumps, &f->fresh_jump_room, f->fresh_jump_count, sizeof(*f->fresh_jumps))) {
		f->failed = true;
		return;
	}
	if (!f->jumps[i].fresh)
		f->fresh_jumps[f->fresh_jump_count++] = (uint32_t)i;
	f->jumps[i].noted = f->jumps[i].fresh = true;
	state_copy(&f->jumps[i].state, s);
	f->jumps[i].table = state_table(s, in, &f->jumps[i].what);
	f->table_at[i] = f->jumps[i].table ? (uint32_t)f->jumps[i].what.off : 0;
}

/*
 * Others reach an instruction with rsp elsewhere than a call before it would leave
 * it: then that call does not come back, or the others' code would be wrong.
 */
static bool clashes(const struct flow *f, uint32_t step, const struct state *s)
{
	uint32_t k = f->leader[step] - 1;
	struct value mine = s->reg[ETCH_REG_RSP], its = f->states[k].reg[ETCH_REG_RSP];

	return (f->state_live[k] & LIVE) && mine.kind == VALUE_CFA && its.kind == VALUE_CFA && mine.off != its.off;
}

static void dead_note(struct flow *f, uint32_t off, const struct state *call)
{
	if (off >= f->piece->end - f->piece->start)
		return;
	if (!room_make(&f->dead, &f->dead_room, f->dead_count, sizeof(*f->dead))) {
		f->failed = true;
		return;
	}
	f->dead[f->dead_count].off = off;
	state_copy(&f->dead[f->dead_count++].state, call);
}

/*
 * Code behind calls that do not come back and that nothing else reaches, clang's jump
 * behind a throw: nobody will be there, and if that is wrong it is by such a call's
 * return. It says nothing about the rest of the piece. Where nothing says that the piece goes on, it may be
 * another function.
 */
void flow_dead_follow(struct flow *f)
{
	size_t i;

	for (i = f->piece->open ? 0 : f->dead_count; i-- > 0 && !f->failed;) { /* of two walks past a call the last one counts */
		struct state s;
		uint32_t k;

		if (flow_walked(f, f->dead[i].off))
			continue;
		k = flow_step(f, f->dead[i].off);
		if (k == NO_STEP || f->steps[k].padding)
			continue;
		state_copy(&s, &f->dead[i].state);
		state_call(&s);
		s.weak = s.dead = true;
		flow_enter(f, f->piece->start + f->dead[i].off, &s);
		flow_walk(f);
	}
}

/* Where a walk has come to. */
struct walk {
	uint32_t off, from; /* from: the state that it began with */
	bool called; /* by a call before it */
	struct compared c;
	struct state s;
};

/* It may go on at a landing pad, or at a fixup. */
static void walk_throws(struct flow *f, const struct walk *w, const struct step *in)
{
	bool calls = in->flow == FLOW_CALL || in->flow == FLOW_CALL_IND;
	uint64_t addr = f->piece->start + w->off, pad = f->pad_count && calls ? flow_pad_of(f, addr) : 0;
	const struct fixup *fixup = f->fixup_count ? flow_fixup_of(f, addr) : NULL;
	struct state there;

	if (pad && f->pads_held) {
		f->state_live[w->from] |= THROWS;
		if (w->s.reg[ETCH_REG_RSP].kind == VALUE_CFA && w->s.reg[ETCH_REG_RSP].off > f->pad_depth)
			f->pad_depth = w->s.reg[ETCH_REG_RSP].off;
	} else if (pad) {
		flow_land(f, &w->s, &there);
		follow(f, pad, &there);
	}
	if (fixup && flow_inside(f, fixup->to)) {
		flow_fault(fixup, in, &w->s, &there);
		follow(f, fixup->to, &there);
	}
}

/*
 * Does it go on with the next? Not where it has taken something new to where this walk began: the walk will come again, and
 * what is behind the loop is not to be told of its first round. One that probes the stack page by page
 * (-fstack-clash-protection) leaves rsp elsewhere, which the compare at its end says of all rounds at once.
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
	return !(f->state_live[w->from] & QUEUED);
}

/*
 * A call within the piece may be there for the word that it pushes: OCaml, until 4.13, so puts the address of the handler
 * behind it on the stack, and goes on at the target in the frame that it has. .eh_frame says which it is: the CFA at the
 * target is that of the call, a word further from rsp, where a function's would be one word from it.
 */
static bool pushes_on(const struct flow *f, const struct state *call, const struct step *in, struct state *out)
{
	const struct etch_cfi_row *row = flow_cfi_at(f, (uint64_t)in->imm);
	const struct step push = {.op = STEP_PUSH, .a = INSN_NO_REG, .imm = 8, .stirs = STIRS_MORE};
	struct etch_rule mine;

	if (!row || row->rule.kind != ETCH_RULE_CALL || call->reg[ETCH_REG_RSP].kind != VALUE_CFA)
		return false;
	state_copy(out, call);
	state_step(out, &push, 0);
	state_rule(out, &mine);
	return mine.kind == row->rule.kind && mine.cfa == row->rule.cfa && mine.cfa_off == row->rule.cfa_off &&
	       row->rule.cfa == ETCH_REG_RSP;
}

/* Does a call come back, to an instruction of the piece? */
static bool walk_call(struct flow *f, const struct walk *w, const struct step *in)
{
	uint32_t behind = w->off + in->len;
	struct state there;

	if (in->flow == FLOW_CALL && flow_inside(f, (uint64_t)in->imm) && (uint64_t)in->imm != f->piece->start) {
		if (pushes_on(f, &w->s, in, &there)) {
			follow(f, (uint64_t)in->imm, &there);
		} else {
			f->helpers = true;
			follow(f, (uint64_t)in->imm, &state_at_entry);
		}
	}
	if (flow_comes_back(f, in))
		return !(f->piece->open && flow_is_end(f, in, behind));
	dead_note(f, behind, &w->s);
	return false;
}

/* An instruction that goes on with the next; false: the walk ends with it. */
static inline bool walk_next(struct flow *f, struct walk *w, uint32_t number)
{
	const struct step *in = &f->steps[number];

	if (flow_is_exit(in, &w->s))
		return false;
	if (!flow_advance_same(in, &w->s, w->off, &w->c))
		f->seen[number] |= FLOW_MOVES;
	return true;
}

/* What a jump out of the piece that is no tail call leads to may ask for numbers: a part of the function. */
static inline void walk_outside(struct flow *f, uint64_t target, const struct state *s)
{
	if (!flow_inside(f, target) && !flow_is_tail_call(f, target, s))
		f->asks |= STIRS_ASKS;
}

/* One that may go elsewhere. */
static bool walk_way(struct flow *f, struct walk *w, uint32_t number)
{
	struct step in = f->steps[number]; /* the list may move */

	switch (in.flow) {
	case FLOW_BRANCH:
		if (!walk_branch(f, w, &in))
			return false;
		break;
	case FLOW_JUMP:
		walk_outside(f, (uint64_t)in.imm, &w->s);
		follow_jump(f, (uint64_t)in.imm, &w->s);
		return false;
	case FLOW_JUMP_IND:
		jump_note(f, number, &w->s);
		return false;
	case FLOW_RETURN:
	case FLOW_STOP:
		return false;
	case FLOW_CALL:
	case FLOW_CALL_IND:
		if (!walk_call(f, w, &in))
			return false;
		w->called = true;
		break;
	default:
		break;
	}
	if (!flow_advance_same(&in, &w->s, w->off, &w->c))
		f->seen[number] |= FLOW_MOVES;
	return true;
}

/* From where paths meet, to where the path ends, or meets others. */
static void walk_from(struct flow *f, uint32_t start)
{
	uint64_t size = f->piece->end - f->piece->start;
	bool throws = f->pad_count || f->fixup_count, on = true;
	struct walk w;

	w.off = start;
	w.from = f->leader[f->at[start] - 1] - 1;
	w.called = false;
	w.c = (struct compared){0};
	while (on && w.off < size && f->at[w.off]) {
		uint32_t i = f->at[w.off] - 1;
		unsigned len = f->steps[i].len;

		if (f->leader[i] && w.off != start) {
			if (!w.called || !clashes(f, i, &w.s))
				reach(f, i, &w.s);
			break;
		}
		if (f->leader[i])
			state_copy(&w.s, &f->states[w.from]);
		f->seen[i] = (uint8_t)((f->seen[i] | FLOW_WALKED) & ~FLOW_MOVES);
		w.called = false;
		if (throws)
			walk_throws(f, &w, &f->steps[i]);
		if (!flow_idle(&f->steps[i], &w.s, &w.c))
			on = f->steps[i].flow == FLOW_NEXT ? walk_next(f, &w, i) : walk_way(f, &w, i);
		w.off += len;
	}
	if (w.off != start && w.off > f->hull)
		f->hull = w.off;
}

void flow_walk(struct flow *f)
{
	size_t i;

	if (f->dirty) { /* once more over what has gone past new leaders */
		f->dirty = false;
		for (i = 0; i < f->state_count; i++)
			if (f->state_live[i] & LIVE)
				flow_queue(f, (uint32_t)i);
	}
	while (f->heap_count && !f->failed && !(f->plain && flow_asks(f))) {
		uint32_t off = flow_queue_next(f);

		f->state_live[f->leader[f->at[off] - 1] - 1] &= (uint8_t)~QUEUED;
		walk_from(f, off);
	}
}

/* Once more, now that it is known where calls throw from: only there is anything new. */
void flow_walk_pads(struct flow *f)
{
	size_t i;

	f->pads_held = false;
	for (i = 0; i < f->state_count; i++)
		if (f->state_live[i] & THROWS)
			flow_queue(f, (uint32_t)i);
	flow_walk(f);
}

void flow_enter(struct flow *f, uint64_t addr, const struct state *s)
{
	uint32_t i = flow_leader(f, addr - f->piece->start);

	if (i == NO_STEP)
		return;
	flow_reach(f, addr - f->piece->start);
	if (!f->failed)
		reach(f, i, s);
}
