/* SPDX-License-Identifier: MIT */
/*
 * ETCH-S006: the direction flag is set at a call, a return or a jump to another function. Follows all paths from each
 * instruction that sets the flag; the psABI (3.2.1) has it clear at entry and return of a function.
 */
#include "analysis/lint/observe_internal.h"
#include "support/vector.h"

#include <stdlib.h>

/* The traversal from one instruction that sets the flag. */
struct way {
	struct observe *o;
	uint8_t *seen;  /* per step: visited; for all traversals of the code range */
	uint32_t *todo; /* worklist of offsets */
	size_t todo_count, todo_room;
	uint64_t set; /* offset of the instruction that sets the flag */
	char insn[WORDS_MOST];
};

/* Puts an offset on the worklist, unless it was visited or leaves the code that flow has reached. */
static void go(struct way *w, uint64_t off)
{
	struct flow *f = w->o->f;

	if (off >= w->o->size || !flow_walked(f, off) || w->seen[f->at[off] - 1])
		return;
	w->seen[f->at[off] - 1] = 1;
	if (room_make(&w->todo, &w->todo_room, w->todo_count, sizeof(*w->todo)))
		w->todo[w->todo_count++] = (uint32_t)off;
	else
		w->o->failed = true;
}

static void say(struct way *w, uint64_t off, const char *what)
{
	struct observe *o = w->o;
	char insn[WORDS_MOST];
	struct finding *x;

	words_insn(o, off, insn);
	x = OBSERVE(o, "ETCH-S006", 0, o->f->in.range->start + off, "the direction flag is set at a %s", what);
	OBSERVE_FACT_AT(o, x, w->set, "set by", "%s", w->insn);
	OBSERVE_FACT_AT(o, x, off, "still set at", "%s", insn);
}

/* Visits an instruction before which the flag is set. */
static void way_step(struct way *w, uint64_t off)
{
	const struct flow *f = w->o->f;
	const struct step *in = &f->steps[f->at[off] - 1];
	uint64_t target = (uint64_t)in->imm;

	if (in->direction != DIRECTION_KEPT)
		return; /* cleared; or set again, which has a traversal of its own */
	switch (in->flow) {
	case FLOW_RETURN: say(w, off, "return"); return;
	case FLOW_CALL:
	case FLOW_CALL_IND: say(w, off, "call"); return; /* one finding per path is enough */
	case FLOW_JUMP:
	case FLOW_BRANCH:
		if (flow_inside(f, target))
			go(w, target - f->in.range->start);
		else if (target & (FLOW_EXTERN | FLOW_SLOT) || observe_is_function(f->in.env, target))
			say(w, off, "jump to another function");
		if (in->flow == FLOW_JUMP)
			return;
		break;
	case FLOW_JUMP_IND:
	case FLOW_STOP: return;
	default: break;
	}
	if (in->op != STEP_HALT)
		go(w, off + in->len);
}

void observe_flag(struct observe *o)
{
	struct flow *f = o->f;
	struct way w = {.o = o, .seen = calloc(f->step_count + 1, 1)};
	uint64_t off;

	if (!w.seen) {
		o->failed = true;
		return;
	}
	for (off = 0; off < o->size && !o->failed; off++) {
		const struct step *in;

		if (!flow_walked(f, off))
			continue;
		in = &f->steps[f->at[off] - 1];
		if (in->direction != DIRECTION_DOWN)
			continue;
		w.set = off;
		words_insn(o, off, w.insn);
		go(&w, off + in->len);
		while (w.todo_count && !o->failed)
			way_step(&w, w.todo[--w.todo_count]);
	}
	free(w.seen);
	free(w.todo);
}
