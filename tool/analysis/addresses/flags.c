/* SPDX-License-Identifier: MIT */
/* Live flags: a backward dataflow analysis, swept from the last instruction to the first until nothing changes. */
#include "analysis/addresses/flags.h"

#include <stdlib.h>

/* Instructions that are looked at where a jump leaves the function. */
#define LOOK_AHEAD 32u

struct flags_solve {
	const struct track_func *f;
	uint8_t *before; /* per instruction: the flags that are live before it */
};

static bool is_inside(const struct track_func *f, const struct insn *in)
{
	return in->target >= f->fn->start && in->target < f->fn->end;
}

/*
 * Live flags at an address of another function: a part of this one that the compiler has moved away, or a tail call.
 * The instructions there are read in a straight line, over jumps inside that part, until all flags have been set.
 * Behind a branch, or a way back, all that have not been are taken to be live.
 */
static uint8_t live_elsewhere(const struct func *fn, uint64_t at)
{
	uint8_t live = 0, open = INSN_FLAGS;
	struct insn in;
	unsigned i;

	for (i = 0; i < LOOK_AHEAD && at >= fn->start && at < fn->end; i++) {
		if (!insn_decode(fn->bytes + (at - fn->start), fn->end - at, at, &in))
			break;
		live |= in.flags_read & open;
		open &= (uint8_t)~in.flags_set;
		if (!open)
			return live;
		switch (in.flow) {
		case FLOW_NEXT: at += in.len; break;
		case FLOW_CALL:
		case FLOW_CALL_IND:
		case FLOW_RETURN:
		case FLOW_STOP: return live;
		case FLOW_JUMP: at = in.target; break;
		default: return live | open;
		}
	}
	return live | open;
}

/* Live flags where a direct jump or branch leads. */
static uint8_t live_at_target(const struct flags_solve *s, const struct insn *in)
{
	const struct track_func *f = s->f;
	size_t to;

	if (is_inside(f, in)) {
		to = func_insn_at(f->code, in->target);
		return to == SIZE_MAX ? INSN_FLAGS : s->before[to];
	}
	if (in->callee < 0)
		return 0; /* a function of another file: a tail call */
	return f->clobbers ? live_elsewhere(&f->clobbers->list->funcs[in->callee], in->entry) : INSN_FLAGS;
}

/* Live flags behind an indirect jump: those at any place of the function whose address is taken. */
static uint8_t live_at_entries(const struct flags_solve *s)
{
	const struct track_entries *x = s->f->entries;
	uint8_t live = 0;
	size_t i, to;

	if (x->anywhere)
		return INSN_FLAGS;
	for (i = 0; i < x->count; i++) {
		to = func_insn_at(s->f->code, x->list[i]);
		live |= to == SIZE_MAX ? INSN_FLAGS : s->before[to];
	}
	return live;
}

static uint8_t live_behind(const struct flags_solve *s, size_t i)
{
	const struct insn *in = &s->f->code->insns[i];
	uint8_t next = i + 1 < s->f->code->count ? s->before[i + 1] : INSN_FLAGS;

	switch (in->flow) {
	case FLOW_CALL:
	case FLOW_CALL_IND:
	case FLOW_RETURN:
	case FLOW_STOP: return 0;
	case FLOW_JUMP: return live_at_target(s, in);
	case FLOW_BRANCH: return next | live_at_target(s, in);
	case FLOW_JUMP_IND: return live_at_entries(s);
	default: return next;
	}
}

/* Live flags at the fixups of an instruction that may fault; *k: the number of fixups of instructions up to it. */
static uint8_t live_at_fixups(const struct flags_solve *s, uint64_t addr, size_t *k)
{
	const struct track_entries *x = s->f->entries;
	uint8_t live = 0;
	size_t to;

	while (*k && x->faults[*k - 1].insn > addr)
		(*k)--;
	for (; *k && x->faults[*k - 1].insn == addr; (*k)--) {
		to = func_insn_at(s->f->code, x->faults[*k - 1].to);
		live |= to == SIZE_MAX ? INSN_FLAGS : s->before[to];
	}
	return live;
}

uint8_t *func_live_flags(const struct track_func *f)
{
	size_t count = f->code->count, i, k;
	struct flags_solve s = {f, calloc(count + 1, 1)};
	uint8_t *behind = calloc(count + 1, 1);
	bool changed = s.before && behind;

	while (changed) {
		changed = false;
		k = f->entries->fault_count;
		for (i = count; i--;) {
			const struct insn *in = &f->code->insns[i];
			uint8_t now =
				(uint8_t)(in->flags_read | (live_behind(&s, i) & ~in->flags_set) | live_at_fixups(&s, in->addr, &k));

			changed |= now != s.before[i];
			s.before[i] = now;
		}
	}
	for (i = 0; s.before && behind && i < count; i++)
		behind[i] = live_behind(&s, i);
	if (!s.before) {
		free(behind);
		behind = NULL;
	}
	free(s.before);
	return behind;
}

bool func_stack_even(const struct func_code *code)
{
	size_t i;

	for (i = 0; i < code->count; i++)
		if (code->insns[i].stack_odd)
			return false;
	return true;
}
