/* SPDX-License-Identifier: MIT */
/*
 * ETCH-S006: the direction flag is set at a call, a return or a jump to another function. The psABI (3.2.1) requires it
 * clear on entry to a function and on return. Follows all paths from each instruction that sets the flag.
 */
#include "analysis/dataflow/solver.h"
#include "analysis/lint/observe_internal.h"
#include "support/memory.h"

/* The analysis. Its nodes are steps; the state of a node is whether a path leads there with the flag set. */
struct way {
	struct observe *o;
	bool *seen; /* the state of each node, kept for the next instruction that sets the flag, so that each exit has one
	             * finding */
	struct worklist list;
	uint64_t set;                /* offset of the instruction that has set the flag */
	char insn[DESCRIPTION_MOST]; /* its text */
};

static bool way_join(void *ctx, uint32_t step, const void *state)
{
	struct way *w = ctx;
	bool first = !w->seen[step];

	(void)state;
	w->seen[step] = true;
	return first;
}

static void way_transfer(void *ctx, uint32_t step);

static const struct dataflow_domain ways = {.join = way_join, .transfer = way_transfer};

/* Passes the set flag to the step at an offset, if flow has reached it. */
static void flag_pass(struct way *w, uint64_t off)
{
	if (off < w->o->size && flow_walked(w->o->f, off))
		dataflow_pass(&ways, &w->list, w, w->o->f->at[off] - 1, NULL);
}

static void flag_report(struct way *w, uint64_t off, const char *what)
{
	struct observe *o = w->o;
	char insn[DESCRIPTION_MOST];
	struct finding *x;

	describe_insn(o, off, insn);
	x = OBSERVE(o, "ETCH-S006", 0, o->f->in.range->start + off, "the direction flag is set at a %s", what);
	OBSERVE_FACT_AT(o, x, w->set, "set by", "%s", w->insn);
	OBSERVE_FACT_AT(o, x, off, "still set at", "%s", insn);
}

/* Reports an exit with the flag set, or passes the flag on to the successors. */
static void way_transfer(void *ctx, uint32_t step)
{
	struct way *w = ctx;
	const struct flow *f = w->o->f;
	const struct step *in = &f->steps[step];
	uint64_t target = (uint64_t)in->imm, off = f->step_at[step];

	if (in->direction != DIRECTION_KEPT)
		return; /* cleared; or set again, where observe_flag() starts too */
	switch (in->flow) {
	case FLOW_RETURN: flag_report(w, off, "return"); return;
	case FLOW_CALL:
	case FLOW_CALL_IND: flag_report(w, off, "call"); return; /* one finding per path */
	case FLOW_JUMP:
	case FLOW_BRANCH:
		if (flow_inside(f, target))
			flag_pass(w, target - f->in.range->start);
		else if (target & (FLOW_EXTERN | FLOW_SLOT) || observe_is_function(f->in.env, target))
			flag_report(w, off, "jump to another function");
		if (in->flow == FLOW_JUMP)
			return;
		break;
	case FLOW_JUMP_IND:
	case FLOW_STOP: return;
	default: break;
	}
	if (in->op != STEP_HALT)
		flag_pass(w, off + in->len);
}

void observe_flag(struct observe *o)
{
	struct flow *f = o->f;
	struct way w = {.o = o, .seen = mem_zero(f->step_count + 1, sizeof(*w.seen))};
	uint64_t off;

	for (off = 0; off < o->size; off++) {
		const struct step *in;

		if (!flow_walked(f, off))
			continue;
		in = &f->steps[f->at[off] - 1];
		if (in->direction != DIRECTION_DOWN)
			continue;
		w.set = off;
		describe_insn(o, off, w.insn);
		flag_pass(&w, off + in->len);
		dataflow_solve(&ways, &w.list, &w);
	}
	free(w.seen);
	worklist_free(&w.list);
}
