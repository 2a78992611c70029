/* SPDX-License-Identifier: MIT */
/* Finds the live flags, by a backward analysis of one function with the dataflow solver; and the instructions that read
 * the flags which one instruction sets. */
#include "analysis/addresses/flags.h"

#include "analysis/dataflow/solver.h"
#include "support/memory.h"
#include <stdlib.h>

/* Number of instructions that are looked at after a jump out of the function. */
#define LOOK_AHEAD 32u

/*
 * The domain of the analysis. The state of a node is the set of flags that are live after it. The nodes are the
 * instructions of the function, then one node for the targets of its indirect jumps, then one node for each of
 * f->entries->faults, which leads to the fixup.
 */
struct live_flags {
	const struct track_func *f;
	uint32_t jumps, faults; /* index of the node for indirect jumps, and of the first node for a fault */
	uint32_t count;         /* number of nodes */
	uint8_t *after;         /* per node: the flags that are live after it */
	/* from[first[i]..first[i + 1]) are the nodes that lead to instruction i, other than the instruction in front of
	 * it. */
	uint32_t *first, *from;
	struct worklist list;
};

/* Does an instruction pass flags on to the next one? Calls end the life of all flags. */
static bool passes_flags(const struct insn *in) { return in->flow == FLOW_NEXT || in->flow == FLOW_BRANCH; }

/*
 * Returns the flags that are live at an address in another function: either a part of the tracked function that the
 * compiler has placed elsewhere, or the target of a tail call. Instructions are read along direct jumps inside that
 * function until all flags have been set. After a branch, an indirect jump or LOOK_AHEAD instructions, the flags that
 * have not been set yet are assumed to be live.
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

/* Returns the flags that are live after instruction i because code outside of the function may read them. */
static uint8_t live_outside(const struct live_flags *l, uint32_t i)
{
	const struct track_func *f = l->f;
	const struct insn *in = &f->code->insns[i];
	uint8_t live = passes_flags(in) && i + 1 == l->jumps ? INSN_FLAGS : 0;

	return func_is_jump(in) && !func_holds(f->fn, in->target) ? live | func_live_elsewhere(f, in) : live;
}

/* Sets *to to the address to which a node leads, other than to the next instruction. Returns false if there is none
 * inside of the function. The node for indirect jumps leads to each entry of the function; k selects the entry. */
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

/* Fills l->first and l->from in two passes: the first counts the nodes that lead to each instruction, the second stores
 * them. If a jump does not lead to the start of an instruction, all flags are live after it. */
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
			live |= l->after[l->faults + k]; /* a fault occurs before the instruction sets flags */
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

/* Passes the flags that are live before a node to the nodes that lead to it. */
static void live_transfer(void *ctx, uint32_t node)
{
	struct live_flags *l = ctx;
	const struct insn *insns = l->f->code->insns;
	uint8_t live;
	size_t k;

	if (node > l->jumps) { /* live_before() of the faulting instruction reads this state */
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
 * A walk from an instruction that sets flags, over the code that may run before these flags are set again. Each
 * instruction is visited once and nothing is joined, so this is no domain of dataflow/solver.h.
 */
struct flags_walk {
	const struct track_func *f;
	const uint8_t *live; /* the result of func_live_flags() */
	uint8_t *seen;       /* per instruction: it may run while flags that the first instruction has set are live */
	size_t *todo, count; /* the instructions reached so far, each listed once */
};

static bool touches_flags(const struct track_func *f, const struct insn *in)
{
	return insn_touches_flags(func_bytes_of(f->fn, in), in->len);
}

/* Is any flag live before instruction k? */
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

/* Visits the instructions that may follow instruction k. Returns false if control may leave the function while these
 * flags are live. */
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

/* Does the walk include the instruction at an address? */
static bool is_seen_at(const struct flags_walk *w, uint64_t addr)
{
	size_t k = func_insn_at(w->f->code, addr);

	return k != SIZE_MAX && w->seen[k];
}

/* May control get from instruction k to an instruction of the walk, or into the middle of an instruction? */
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

/* May control get into the walk, which began at instruction `i`, from outside of it? */
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
		/* The flags that it does not set must not be mixed with those that it sets. */
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
