/* SPDX-License-Identifier: MIT */
/* Applies notes (facts/notes.h) in the analysis of a code range: they change the control flow of steps, and give
 * states. */
#include "analysis/flow/flow_internal.h"
#include "shared/search.h"

#include <string.h>

/* Turns a jump or nop that is patched at run time into a branch with an unknown outcome. */
static void step_branch(struct step *s, uint64_t target)
{
	s->flow = FLOW_BRANCH;
	s->op = STEP_NONE;
	s->a = s->b = s->index = INSN_NO_REG;
	s->imm = (int64_t)target;
	s->cond = COND_OTHER;
	s->padding = s->deref = false;
	s->effects |= EFFECT_CONTROL;
}

/* Sets the flow of iret, sysret and sysexit. In a function, iret is taken to return to the next instruction, so that it
 * only pops five words. In other code (code_range.part) it leaves the kernel, as sysret and sysexit always do. */
static void step_leave(const struct flow *f, struct step *s, uint64_t addr)
{
	const struct code_range *p = f->in.range;
	enum leaving how = code_leaves(p->bytes + (addr - p->start), s->len);

	if (how == LEAVES_NOT)
		return;
	s->flow = how == LEAVES_BY_IRET && !p->part ? FLOW_NEXT : FLOW_STOP;
	if (s->flow == FLOW_NEXT) {
		s->op = STEP_ADD;
		s->a = ETCH_REG_RSP;
		s->imm = IRET_POPS;
		s->touches |= 1u << ETCH_REG_RSP;
	}
	s->effects |= EFFECT_CONTROL | EFFECT_OTHER;
}

bool flow_notes_find(struct flow_input *in)
{
	const struct notes *n = in->env->notes;
	const struct note *last = in->notes_end;
	/* Ranges are mostly analysed in order of address, so the notes of this range mostly follow those of the last
	 * one. */
	bool follows = last >= n->list && last < n->list + n->count && last->at >= in->range->start &&
	               (last == n->list || last[-1].at < in->range->start);
	size_t i = follows ? (size_t)(last - n->list) : SEARCH(n->count, k, n->list[k].at < in->range->start);
	bool edges = false;

	in->notes = n->list + i;
	for (; i < n->count && n->list[i].at <= in->range->end; i++)
		edges |= n->list[i].kind == NOTE_EDGE && n->list[i].at < in->range->end;
	in->notes_end = n->list + i;
	return edges;
}

/* Turns a jump that goes by way of a thunk into an indirect jump through register `reg`. */
static void step_indirect(struct step *s, uint64_t reg)
{
	s->flow = FLOW_JUMP_IND;
	s->a = (uint8_t)reg;
	s->b = s->index = INSN_NO_REG;
	s->deref = false;
	s->effects |= EFFECT_NEEDS_CONSTANT;
}

/* Applies the notes at the address of a step, and NOTE_RESUME if the step jumps to the end of a replacement. */
static void step_jump(const struct flow *f, struct step *s, uint64_t addr, bool noted)
{
	const struct notes *n = f->in.env->notes;
	const struct note *x = noted ? note_at(n, addr, NOTE_BRANCH) : NULL;
	uint64_t end = f->in.range->end;

	if (x && (s->flow == FLOW_JUMP || (s->flow == FLOW_NEXT && s->padding)))
		step_branch(s, x->to);
	/* A jump to the end of a replacement leads to the code that follows the replaced code. */
	if ((s->flow == FLOW_JUMP || s->flow == FLOW_BRANCH) && f->in.range->resumes && (uint64_t)s->imm == end)
		s->imm = (int64_t)note_at(n, end, NOTE_RESUME)->to;
	x = noted ? note_at(n, addr, NOTE_INDIRECT) : NULL;
	if (x && s->flow == FLOW_JUMP)
		step_indirect(s, x->to);
}

/* Applies the notes at the address where a step ends, which say whether control continues after the step. */
static void step_end(const struct notes *n, struct step *s, uint64_t after)
{
	if (note_at(n, after, NOTE_REACHABLE)) {
		if (s->flow == FLOW_STOP)
			s->flow = FLOW_NEXT;
	} else if (note_at(n, after, NOTE_UNREACHABLE) && !flow_is_call(s->flow)) {
		s->flow = FLOW_STOP;
		s->effects |= EFFECT_CONTROL;
	}
}

void flow_note_step(struct flow *f, struct step *s, uint64_t addr)
{
	const struct notes *n = f->in.env->notes;
	uint64_t after = addr + s->len;
	bool some = f->in.notes < f->in.notes_end;

	step_jump(f, s, addr, some && note_any(n, addr));
	if (s->len <= LEAVES_MOST)
		step_leave(f, s, addr);
	if (s->flow == FLOW_STOP && s->padding && (f->in.env->abi_flags & ABI_TRAPS_CONTINUE))
		s->flow = FLOW_NEXT;
	if (some && note_any(n, after))
		step_end(n, s, after);
}

bool flow_note_pushes(const struct flow *f, const struct step *call, uint64_t addr, const struct state *s,
                      struct state *out)
{
	const struct step push = {.op = STEP_PUSH, .a = INSN_NO_REG, .imm = 8, .effects = EFFECT_OTHER};

	if (call->flow != FLOW_CALL || !note_at(f->in.env->notes, addr, NOTE_PUSH))
		return false;
	state_copy(out, s);
	state_transfer(out, &push, (uint32_t)(addr - f->in.range->start));
	return true;
}

/* Returns the address of basic block k. */
static uint64_t block_address(const struct flow *f, uint32_t k)
{
	return f->in.range->start + f->step_at[f->step_of_state[k]];
}

bool flow_note_bars(const struct flow *f, uint32_t k)
{
	uint64_t addr = block_address(f, k);

	if (f->in.notes == f->in.notes_end || !note_any(f->in.env->notes, addr))
		return false;
	if ((f->state_live[k] & LIVE) && note_at(f->in.env->notes, addr, NOTE_FRAME))
		return true;
	return !f->walk.by_note && note_at(f->in.env->notes, addr, NOTE_RESTORE);
}

bool flow_note_begins(const struct flow *f, uint64_t addr)
{
	const struct notes *n = f->in.env->notes;
	const struct note *x = note_at(n, addr, NOTE_FRAME);

	while (x && note_is(n, x + 1, addr, NOTE_FRAME)) /* if there are several, the last one counts */
		x++;
	return x && n->frames[x->to].function;
}

/* Makes the state that a NOTE_FRAME describes. rbp is taken to be the caller's, as in ORC; other registers are
 * unknown. */
static void frame_state(const struct note_frame *frame, struct state *s)
{
	struct slot *x;

	if (frame->function) {
		state_entry(s);
		return;
	}
	memset(s, 0, sizeof(*s));
	s->constants = EFFECT_CONSTANT;
	s->frame = frame->kind == ETCH_RULE_CALL ? FRAME_CALL : frame->kind;
	s->reg[ETCH_REG_RBP] = (struct value){.kind = VALUE_ENTRY, .reg = ETCH_REG_RBP};
	s->known = 1u << ETCH_REG_RSP | 1u << ETCH_REG_RBP;
	s->lowest = -8;
	if (!s->frame)
		s->slot[s->slot_count++] = (struct slot){.at = -8, .value = {.kind = VALUE_ENTRY, .reg = REG_RA}};
	if (frame->reg == NOTE_NO_REG)
		return;
	s->known |= (uint16_t)(1u << frame->reg);
	if (!frame->deref) {
		s->reg[frame->reg] = (struct value){.kind = VALUE_CFA, .off = -frame->off};
		return;
	}
	s->align = 1;
	s->reg[frame->reg] = (struct value){.kind = VALUE_ALIGNED};
	x = &s->slot[s->slot_count++];
	*x = (struct slot){.aligned = 1, .value = {.kind = VALUE_CFA}};
	if (frame->reg == ETCH_REG_RSP)
		x->value.off = -frame->off;
	else
		x->at = frame->off;
}

void flow_note_enter(struct flow *f)
{
	const struct notes *n = f->in.env->notes;
	const struct note *x;
	struct state s;

	for (x = f->in.notes; x < f->in.notes_end && x->at < f->in.range->end; x++) {
		/* Of several notes at one address only the last counts, so it is the only one that is entered here. */
		if (x->kind != NOTE_FRAME || note_is(n, x + 1, x->at, NOTE_FRAME))
			continue;
		frame_state(&n->frames[x->to], &s);
		flow_enter(f, x->at, &s);
	}
}
