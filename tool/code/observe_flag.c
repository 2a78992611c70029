/* SPDX-License-Identifier: MIT */
/*
 * ETCH-S006: the direction flag on all ways from an instruction that sets it. Few functions
 * have one, and few instructions are on such a way.
 */
#include "code/observe_parts.h"
#include "code/vector.h"

#include <stdlib.h>

struct way {
	struct observe *o;
	uint8_t *seen;      /* per step */
	uint32_t *todo;     /* offsets */
	size_t todo_count, todo_room;
	uint64_t set;       /* offset of the instruction that sets it */
	char insn[WORDS_MOST];
};

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
	x = OBSERVE(o, "ETCH-S006", 0, o->f->piece->start + off, "the direction flag is set at a %s", what);
	OBSERVE_FACT_AT(o, x, w->set, "set by", "%s", w->insn);
	OBSERVE_FACT_AT(o, x, off, "still set at", "%s", insn);
}

/* One instruction that the flag is set before. */
static void way_step(struct way *w, uint64_t off)
{
	const struct flow *f = w->o->f;
	const struct step *in = &f->steps[f->at[off] - 1];
	uint64_t target = (uint64_t)in->imm;

	if (in->direction != DIRECTION_KEPT)
		return; /* cleared, or set once more: from there it has been, or will be, looked at */
	switch (in->flow) {
	case FLOW_RETURN:
		say(w, off, "return");
		return;
	case FLOW_CALL:
	case FLOW_CALL_IND:
		say(w, off, "call");
		return; /* once a way is enough */
	case FLOW_JUMP:
	case FLOW_BRANCH:
		if (flow_inside(f, target))
			go(w, target - f->piece->start);
		else if (target & (FLOW_EXTERN | FLOW_SLOT) || observe_is_function(f->env, target))
			say(w, off, "jump to another function");
		if (in->flow == FLOW_JUMP)
			return;
		break;
	case FLOW_JUMP_IND:
	case FLOW_STOP:
		return;
	default:
		break;
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
