/* SPDX-License-Identifier: MIT */
/*
 * Finds the instructions that read the flags of one instruction (flags.h). The walk marks each instruction once;
 * nothing is joined, so that it is no domain of dataflow/solver.h.
 */
#include "analysis/addresses/flags.h"
#include "support/memory.h"

#include <stdlib.h>

/* The walk from an instruction that sets flags over the code that may run before they are set again. */
struct flags_walk {
	const struct track_func *f;
	const uint8_t *live; /* the result of func_live_flags() */
	uint8_t *seen;       /* per instruction: it is reached with flags of that instruction alone */
	size_t *todo, count; /* reached instructions, each listed once */
};

static bool touches_flags(const struct track_func *f, const struct insn *in)
{
	return insn_touches_flags(func_bytes_of(f->fn, in), in->len);
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
	bool inside = func_holds(f->fn, in->target);
	size_t to;

	if (!w->live[k])
		return true;
	if (func_is_jump(in)) {
		to = inside ? func_insn_at(f->code, in->target) : SIZE_MAX;
		if (to != SIZE_MAX)
			walk_reach(w, to);
		else if (inside || in->flow == FLOW_JUMP || func_live_elsewhere(f, in))
			return false;
	}
	if (in->flow == FLOW_NEXT || in->flow == FLOW_BRANCH) {
		if (k + 1 == f->code->count)
			return false;
		walk_reach(w, k + 1);
	}
	return in->flow != FLOW_JUMP_IND;
}

/* Does the walk contain the instruction at an address? */
static bool is_seen_at(const struct flags_walk *w, uint64_t addr)
{
	size_t k = func_insn_at(w->f->code, addr);

	return k != SIZE_MAX && w->seen[k];
}

/* May control go from instruction k to one of the walk, or into the middle of an instruction? */
static bool leads_in(const struct flags_walk *w, size_t k)
{
	const struct func_code *code = w->f->code;
	const struct insn *in = &code->insns[k];
	size_t to;

	if (func_falls_through(in) && k + 1 < code->count && w->seen[k + 1])
		return true;
	if (!func_is_jump(in) || !func_holds(w->f->fn, in->target))
		return false;
	to = func_insn_at(code, in->target);
	return to == SIZE_MAX || w->seen[to];
}

/* May an instruction of the walk, which began at `i`, have a predecessor outside of it? */
static bool is_entered(const struct flags_walk *w, size_t i)
{
	const struct track_entries *x = w->f->entries;
	size_t k;

	for (k = 0; k < x->count; k++)
		if (is_seen_at(w, x->list[k]))
			return true;
	for (k = 0; k < x->pad_count; k++)
		if (is_seen_at(w, x->pads[k].pad))
			return true;
	for (k = 0; k < w->f->code->count; k++) {
		bool ours = k == i || (w->seen[k] && !touches_flags(w->f, &w->f->code->insns[k]));

		if (!ours && leads_in(w, k))
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
