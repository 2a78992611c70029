/* SPDX-License-Identifier: MIT */
/* Finds live flags with the dataflow solver, by a backward analysis of one function; and the instructions that read the
 * flags of one instruction. */
#include "analysis/addresses/flags.h"

#include "analysis/dataflow/solver.h"
#include "support/memory.h"
#include <stdlib.h>

/* How many instructions are read where a jump leaves the function. */
#define LOOK_AHEAD 32u

/*
 * The domain. The state of a node is the set of flags that are live after it. The nodes are the function's
 * instructions, then one for the targets of its indirect jumps, then one for each of f->entries->faults, whose
 * successor is the fixup.
 */
struct live_flags {
	const struct track_func *f;
	uint32_t jumps, faults; /* number of the node of indirect jumps, and of the first node of a fault */
	uint32_t count;         /* number of nodes */
	uint8_t *after;         /* per node */
	uint32_t *first, *from; /* from[first[i]..first[i + 1]): the predecessors of instruction i, except for the
	                         * instruction before it */
	struct worklist list;
};

/* Do flags stay live in the next instruction? Calls end the life of all flags. */
static bool passes_flags(const struct insn *in) { return in->flow == FLOW_NEXT || in->flow == FLOW_BRANCH; }

/*
 * Returns the flags that are live at an address of another function: a part of this function that the compiler has
 * moved away, or the target of a tail call. The instructions there are read in a straight line, over jumps inside that
 * part, until all flags have been set. After a branch, or a jump back, all other flags are assumed to be live.
 */
static uint8_t live_elsewhere(const struct func *fn, uint64_t at)
{
	uint8_t live = 0, open = INSN_FLAGS;
	struct insn in;
	unsigned i;

	for (i = 0; i < LOOK_AHEAD && func_holds(fn, at); i++) {
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

uint8_t func_live_elsewhere(const struct track_func *f, const struct insn *in)
{
	if (in->callee < 0)
		return 0; /* a tail call of a function of another file */
	return f->clobbers ? live_elsewhere(&f->clobbers->list->funcs[in->callee], in->entry) : INSN_FLAGS;
}

/* Returns the flags that are live after instruction i because code outside of the function reads them. */
static uint8_t live_outside(const struct live_flags *l, uint32_t i)
{
	const struct track_func *f = l->f;
	const struct insn *in = &f->code->insns[i];
	uint8_t live = passes_flags(in) && i + 1 == l->jumps ? INSN_FLAGS : 0;

	return func_is_jump(in) && !func_holds(f->fn, in->target) ? live | func_live_elsewhere(f, in) : live;
}

/* Finds the address of a node's successor that is not simply the next instruction. Returns false if it has none inside
 * of the function. The node of indirect jumps has one for each entry of the function; k selects the entry. */
static bool leads_to(const struct live_flags *l, uint32_t node, size_t k, uint64_t *to)
{
	const struct track_entries *x = l->f->entries;
	const struct insn *in;

	if (node >= l->jumps) {
		*to = node == l->jumps ? x->list[k] : x->faults[node - l->faults].to;
		return true;
	}
	in = &l->f->code->insns[node];
	*to = in->target;
	return func_is_jump(in) && func_holds(l->f->fn, in->target);
}

/* Lists the predecessors in two passes: the first counts those of each instruction, the second enters them. Where a
 * jump does not lead to the start of an instruction, all flags are live. */
static void predecessors_find(struct live_flags *l)
{
	uint32_t node, *next = l->first + 1;
	size_t k, to, edges = 0;
	uint64_t at;

	for (int pass = 0; pass < 2; pass++) {
		for (node = 0; node < l->count; node++)
			for (k = 0; k < (node == l->jumps ? l->f->entries->count : 1); k++) {
				if (!leads_to(l, node, k, &at))
					continue;
				to = func_insn_at(l->f->code, at);
				if (to == SIZE_MAX)
					l->after[node] = INSN_FLAGS;
				else if (!pass)
					next[to + 1]++;
				else
					l->from[next[to]++] = node;
			}
		for (k = 0; !pass && k <= l->jumps; k++)
			next[k] = edges += next[k];
		if (!pass)
			l->from = mem_alloc(edges + 1, sizeof(*l->from));
	}
}

/* Returns the flags that are live before instruction i. */
static uint8_t live_before(const struct live_flags *l, uint32_t i)
{
	const struct track_entries *x = l->f->entries;
	const struct insn *in = &l->f->code->insns[i];
	uint8_t live = (uint8_t)(in->flags_read | (l->after[i] & ~in->flags_set));
	size_t k;

	if (x->fault_count)
		for (k = track_fault_from(x, in->addr); k < x->fault_count && x->faults[k].insn == in->addr; k++)
			live |= l->after[l->faults + k]; /* a fault happens before the instruction sets flags */
	return live;
}

static bool live_join(void *ctx, uint32_t node, const void *state)
{
	struct live_flags *l = ctx;
	uint8_t live = l->after[node] | *(const uint8_t *)state;
	bool changed = live != l->after[node];

	l->after[node] = live;
	return changed;
}

static void live_transfer(void *ctx, uint32_t node);
static const struct dataflow_domain flags_domain = {.join = live_join, .transfer = live_transfer};

/* Passes the flags that are live before a node to its predecessors. */
static void live_transfer(void *ctx, uint32_t node)
{
	struct live_flags *l = ctx;
	const struct insn *insns = l->f->code->insns;
	uint8_t live;
	size_t k;

	if (node > l->jumps) { /* live_before() of the instruction that faults reads this state */
		k = func_insn_at(l->f->code, l->f->entries->faults[node - l->faults].insn);
		if (k != SIZE_MAX)
			dataflow_visit(&flags_domain, &l->list, l, (uint32_t)k);
		return;
	}
	live = node == l->jumps ? l->after[node] : live_before(l, node);
	if (node == l->jumps) {
		for (k = 0; k < l->jumps; k++)
			if (insns[k].flow == FLOW_JUMP_IND)
				dataflow_pass(&flags_domain, &l->list, l, (uint32_t)k, &live);
		return;
	}
	for (k = l->first[node]; k < l->first[node + 1]; k++)
		dataflow_pass(&flags_domain, &l->list, l, l->from[k], &live);
	if (node && passes_flags(&insns[node - 1]))
		dataflow_pass(&flags_domain, &l->list, l, node - 1, &live);
}

uint8_t *func_live_flags(const struct track_func *f)
{
	uint32_t n = (uint32_t)f->code->count, i;
	struct live_flags l = {.f = f, .jumps = n, .faults = n + 1, .count = n + 1 + (uint32_t)f->entries->fault_count};

	l.after = mem_zero(l.count, 1);
	l.first = mem_zero((size_t)n + 3, sizeof(*l.first));
	if (f->entries->anywhere)
		l.after[l.jumps] = INSN_FLAGS;
	predecessors_find(&l);
	for (i = 0; i < n; i++)
		l.after[i] |= live_outside(&l, i);
	for (i = 0; i < l.count; i++)
		dataflow_visit(&flags_domain, &l.list, &l, i);
	dataflow_solve(&flags_domain, &l.list, &l);
	free(l.first);
	free(l.from);
	worklist_free(&l.list);
	return l.after;
}

/* ---- the readers of the flags of one instruction -------------------------------- */

/*
 * The walk from an instruction that sets flags over the code that may run before they are set again. It marks each
 * instruction once; nothing is joined, so that it is no domain of dataflow/solver.h.
 */
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

bool func_stack_even(const struct func_code *code)
{
	size_t i;

	for (i = 0; i < code->count; i++)
		if (code->insns[i].stack_odd)
			return false;
	return true;
}
