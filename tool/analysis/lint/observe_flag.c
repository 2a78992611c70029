/* SPDX-License-Identifier: MIT */
/*
 * Adds ETCH-S006 where the direction flag is set at a call, a return or a jump to another function. The psABI (3.2.1)
 * requires that it is clear on entry to a function and on return. Follows all paths from each instruction that sets the
 * flag.
 */
#include "analysis/dataflow/solver.h"
#include "analysis/lint/observe_internal.h"
#include "support/memory.h"

/* The domain of the analysis. Its nodes are steps; the state of a node says whether a path leads there with the flag
 * set. */
struct way {
	struct observe *o;
	/* The state of each node; it is kept when the next instruction that sets the flag is followed, so that each exit
	 * gets only one finding. */
	bool *seen;
	struct worklist list;
	uint64_t set;                /* offset of the instruction that set the flag */
	char insn[DESCRIPTION_MOST]; /* the text of that instruction */
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

/* Passes the state "flag set" to the step at an offset, if flow has reached that step. */
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

/* Reports an exit at which the flag is set, or passes the state on to the steps that follow. */
static void way_transfer(void *ctx, uint32_t step)
{
	struct way *w = ctx;
	const struct flow *f = w->o->f;
	const struct step *in = &f->steps[step];
	uint64_t target = (uint64_t)in->imm, off = f->step_at[step];

	if (in->direction != DIRECTION_KEPT)
		return; /* this instruction clears the flag; or sets it again, and observe_flag() begins there, too */
	switch (in->flow) {
	case FLOW_RETURN: flag_report(w, off, "return"); return;
	case FLOW_CALL:
	/* The path is not followed further, so that it has only one finding. */
	case FLOW_CALL_IND: flag_report(w, off, "call"); return;
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
