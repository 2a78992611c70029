/* SPDX-License-Identifier: MIT */
/*
 * Stores the results of the analysis of one code range: links, edges and undiscovered targets in the chunk, everything
 * else in its range_state. Interface: worker.h.
 */
#include "analysis/flow/flow_internal.h"
#include "analysis/interproc/worker.h"
#include "analysis/interproc/range_starts.h"
#include "analysis/interproc/rounds.h"
#include "arch/x86/padding.h"

#include "support/memory.h"

#include <stdlib.h>

/*
 * Should an edge from a code range be ignored? Code that neither a symbol nor an FDE covers may be a table that happens
 * to decode as code, so its edges into the middle of a function that .eh_frame describes do not count.
 */
static bool edge_is_doubtful(const struct work *w, const struct code_range *from, uint64_t target)
{
	const struct code_range *to = from->inferred && !w->options->no_cfi ? range_at(&w->env, target) : NULL;

	return to && to->fde >= 0 && to->start != target;
}

/* Adds an undiscovered target to the chunk, unless the cache shows that this worker has already reported it. */
static void undiscovered_keep(struct worker *o, struct chunk *c, uint64_t target)
{
	uint64_t *seen = &o->recent[(target * 0x9e3779b97f4a7c15u) >> 52];

	if (*seen == target)
		return;
	mem_reserve(&c->undiscovered, &c->undiscovered_capacity, c->undiscovered_count, sizeof(*c->undiscovered));
	c->undiscovered[c->undiscovered_count++] = *seen = target;
}

/* Does a code range of code with a stack of its own begin at `target`? The state there does not depend on edges. */
static bool is_own_stack_start(const struct flow_env *env, uint64_t target)
{
	const struct code_range *to = own_stack_begins(env, target) ? range_at(env, target) : NULL;

	return to && to->start == target;
}

/* Stores the edges out of the current code range in the chunk. */
static void edges_keep(struct worker *o, struct chunk *c)
{
	const struct flow *f = &o->flow;
	size_t i;

	for (i = 0; i < f->found.edge_count; i++) {
		const struct flow_edge *x = &f->found.edges[i];

		if (!range_at(&o->w->env, x->target))
			undiscovered_keep(o, c, x->target);
		if (edge_is_doubtful(o->w, f->in.range, x->target) || is_own_stack_start(f->in.env, x->target))
			continue;
		edges_put(&c->edges, x, state_pool_take(&o->w->graph.states, &x->state));
	}
}

void exits_keep(struct worker *o, struct chunk *c)
{
	const struct flow *f = &o->flow;
	size_t i;

	for (i = 0; i < f->found.exit_count; i++) {
		const struct flow_exit *x = &f->found.exits[i];

		links_put(o->w, link_is_tail(x->kind) ? &c->tails : &c->calls, x);
		if (!(x->target & (FLOW_EXTERN | FLOW_SLOT)) && x->to == NO_RANGE &&
		    (x->kind != EXIT_REF || number_may_begin(o->w, x->target)))
			undiscovered_keep(o, c, x->target);
	}
	c->insns += f->found.insn_count;
	edges_keep(o, c);
}

/* Returns the end of the flow in a code range, including the padding after the flow; start + 1 if there is no flow. */
static uint64_t reached_end(struct flow *f)
{
	const struct code_range *p = f->in.range;
	uint64_t end = p->start + (f->found.extent ? f->found.extent : 1);

	if (end >= p->end)
		return p->end;
	return end + padding_size(NULL, p->bytes + (end - p->start), p->end - end, end, NULL);
}

/* Is the result for a step independent of the bytes after the flow? It is if the instruction does not refer to them
 * and, if it is the last one, does not fall through to them. */
static bool step_is_cut_neutral(const struct flow *f, size_t i)
{
	const struct step *in = &f->steps[i];
	bool last = f->step_at[i] + in->len == f->found.extent && (f->seen[i] & FLOW_WALKED);
	uint64_t to = (uint64_t)in->imm - f->in.range->start;

	switch (in->flow) {
	case FLOW_NEXT:
	case FLOW_CALL_IND: return !last;
	case FLOW_BRANCH:
	case FLOW_CALL:
		if (last)
			return false;
		break;
	case FLOW_JUMP: break;
	default: return true;
	}
	return to < f->found.extent || to >= f->in.range->end - f->in.range->start;
}

/*
 * Would analysing an open code range again, after it is cut at the end of its flow, give the same results? An open code
 * range, whose end is unknown, is analysed up to the next code range, then cut where its flow ended. The results stay
 * the same if its last instruction does not fall through, nothing in it refers to bytes after the cut, and it depends
 * on no fact of another code range that may change.
 */
static bool is_cut_neutral(const struct flow *f)
{
	size_t i;

	if (!f->in.range->open || !f->found.extent || f->found.broken || f->found.edge_count || f->in.fixup_count ||
	    f->in.relaxed)
		return false;
	for (i = 0; i < f->jump_count; i++)
		if (f->jumps[i].table || !state_is_entry(&f->jumps[i].state))
			return false;
	for (i = 0; i < f->step_count; i++)
		if (!step_is_cut_neutral(f, i))
			return false;
	return true;
}

/* Records the rule at a jump from C to code with a stack of its own. */
static void run_take(struct work *w, const struct etch_rule *run)
{
	pthread_mutex_lock(&w->rounds.lock);
	own_stack_take(&w->frames.own_stack, run);
	pthread_mutex_unlock(&w->rounds.lock);
}

static void dispatch_keep(struct range_state *s, const struct flow *f)
{
	if (!s->rare && !f->found.dispatch && !f->found.dispatch_otherwise)
		return;
	range_rare_make(s)->dispatch = f->found.dispatch;
	s->rare->dispatch_otherwise = f->found.dispatch_otherwise;
}

void range_keep(struct worker *o, uint32_t number)
{
	const struct code_range *p = &o->w->ranges.list[number];
	struct range_state *s = &o->w->state[number];
	struct flow *f = &o->flow;
	bool settles = s->settling == SETTLING;

	if (o->w->rounds.number >= RECURRENCE_FROM)
		range_rare_make(s)->result_sum = range_sum(f, &s->rows);
	if (p->open && settles) {
		s->reached = reached_end(f);
		s->padding = f->found.extent ? (uint32_t)(s->reached - (p->start + f->found.extent)) : 0;
	}
	s->empty = p->open && !f->found.extent && settles;
	s->flows_to_end = p->start + f->found.extent >= p->end;
	s->returns = f->found.may_return || !settles;
	s->non_c_frame =
		(f->found.non_c_frame || (f->in.own_stack && own_stack_begins(f->in.env, p->start))) && p->fde < 0 && !p->plt;
	s->returns_as_c = f->found.return_certain;
	if (f->found.runtime_rule.kind != ETCH_RULE_UNDEF)
		run_take(o->w, &f->found.runtime_rule);
	s->switches_stack = f->found.replaces_sp;
	s->returns_home |=
		f->found.returns_home && f->in.start <= START_ASSUMED && !f->in.pushed && s->misfit == START_FITS;
	s->cfi_part = o->emit.start == START_PART;
	s->entry_refuted |= f->in.overdrawn || f->in.pushed;
	s->wants_proof = f->in.overdrawn || f->in.lift_unproven;
	s->cut_is_neutral = is_cut_neutral(f);
	s->last_start = f->in.start;
	dispatch_keep(s, f);
	s->jumps_by = f->found.jumps_by;
	s->keeps_frame = f->found.keeps_frame;
	s->cfi_one_row = o->emit.cfi_count == 1;
	s->cfi_denied = o->emit.found.denied;
	if (!f->in.overdrawn && range_start(f->in.env, p, s, &o->emit) != START_PART) {
		s->returns_balanced = f->found.exits_balanced && !f->found.returns_unbalanced && !f->found.exit_sp_mismatch;
		s->exit_sp_mismatch = !f->found.exits_balanced && f->found.exit_sp_mismatch;
	}
}
