/* SPDX-License-Identifier: MIT */
/*
 * Finds the instructions that read the flags of one instruction (flags.h). The walk marks each instruction once;
 * nothing is joined, so that it is no domain of dataflow/solver.h.
 */
#include "analysis/addresses/flags.h"
#include "support/memory.h"

#include <stdlib.h>

static bool is_inside(const struct track_func *f, const struct insn *in)
{
	return in->target >= f->fn->start && in->target < f->fn->end;
}

/* The walk from an instruction that sets flags over the code that may run before they are set again. */
struct flags_walk {
	const struct track_func *f;
	const uint8_t *live; /* the result of func_live_flags() */
	uint8_t *seen;       /* per instruction: it is reached with flags of that instruction alone */
	size_t *todo, count; /* reached instructions, each listed once */
};

static bool touches_flags(const struct track_func *f, const struct insn *in)
{
	return insn_touches_flags(f->fn->bytes + (in->addr - f->fn->start), in->len);
}

/* Is a flag live before instruction k? */
static bool is_live_before(const struct flags_walk *w, size_t k)
{
	const struct insn *in = &w->f->code->insns[k];

	return in->flags_read || (w->live[k] & ~in->flags_set);
}

static void walk_reach(struct flags_walk *w, size_t k)
{
	if (w->seen[k] || !is_live_before(w, k))
		return;
	w->seen[k] = 1;
	w->todo[w->count++] = k;
}

/* Visits the successors of instruction k. Returns false if control may leave the function with these flags. */
static bool walk_on(struct flags_walk *w, size_t k)
{
	const struct track_func *f = w->f;
	const struct insn *in = &f->code->insns[k];
	size_t to;

	if (!w->live[k])
		return true;
	if (in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH) {
		to = is_inside(f, in) ? func_insn_at(f->code, in->target) : SIZE_MAX;
		if (to != SIZE_MAX)
			walk_reach(w, to);
		else if (is_inside(f, in) || in->flow == FLOW_JUMP || func_live_elsewhere(f, in))
			return false;
	}
	if (in->flow == FLOW_NEXT || in->flow == FLOW_BRANCH) {
		if (k + 1 == f->code->count)
			return false;
		walk_reach(w, k + 1);
	}
	return in->flow != FLOW_JUMP_IND;
}

/* May instruction k have a predecessor outside the walk, which began at `i`? */
static bool is_entered(const struct flags_walk *w, size_t i)
{
	const struct track_func *f = w->f;
	const struct track_entries *x = f->entries;
	size_t k, to;

	for (k = 0; k < x->count; k++)
		if ((to = func_insn_at(f->code, x->list[k])) != SIZE_MAX && w->seen[to])
			return true;
	for (k = 0; k < x->pad_count; k++)
		if ((to = func_insn_at(f->code, x->pads[k].pad)) != SIZE_MAX && w->seen[to])
			return true;
	for (k = 0; k < f->code->count; k++) {
		const struct insn *in = &f->code->insns[k];
		bool ours = k == i || (w->seen[k] && !touches_flags(f, in));

		if (ours)
			continue;
		if (in->flow != FLOW_JUMP && in->flow != FLOW_JUMP_IND && in->flow != FLOW_RETURN && in->flow != FLOW_STOP &&
		    k + 1 < f->code->count && w->seen[k + 1])
			return true;
		if ((in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH) && is_inside(f, in) &&
		    ((to = func_insn_at(f->code, in->target)) == SIZE_MAX || w->seen[to]))
			return true;
	}
	return w->seen[0];
}

bool func_flag_readers(const struct track_func *f, const uint8_t *live, size_t i, uint8_t *readers)
{
	size_t n = f->code->count, k;
	struct flags_walk w = {f, live, mem_zero(n + 1, 1), mem_alloc(n + 1, sizeof(size_t)), 0};
	bool known = f->code->whole && !f->fn->vague && !f->entries->anywhere && !f->entries->fault_count && walk_on(&w, i);

	for (k = 0; k < n; k++)
		readers[k] = 0;
	for (k = 0; known && k < w.count; k++) {
		const struct insn *in = &f->code->insns[w.todo[k]];

		readers[w.todo[k]] = in->flags_read != 0;
		/* The flags that it keeps must not be mixed with those that it sets. */
		if (!touches_flags(f, in))
			known = walk_on(&w, w.todo[k]);
		else
			known = !(live[w.todo[k]] & ~in->flags_set);
	}
	known = known && !is_entered(&w, i);
	free(w.seen);
	free(w.todo);
	return known;
}
