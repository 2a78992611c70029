/* SPDX-License-Identifier: MIT */
/* Makes the edges to continuations (struct flow_continuation), where code passes on an address of code in a register:
 * by the state there, and by what is known of the jump to that address (interproc/continuations.c). */
#include "analysis/flow/flow_internal.h"
#include "shared/search.h"

/* Adds an edge to a continuation, in state s. The continuation is a function only where a call has led to the jump. */
static void continuation_enter(struct flow *f, uint64_t label, const struct state *s)
{
	const struct code_range *p = range_at(f->in.env, label);

	flow_edge_add(f, label, s);
	if (!p || p->start == label)
		flow_exit_add(f, label, EXIT_PART);
	else
		f->found.may_return = true;
}

/* Makes the state at a continuation from that of the instruction, or of the entry of its callee. What code has stored
 * meanwhile, except the caller's registers, is unknown. Of the caller's registers, those that have been written, and
 * whose slots are taken off the stack, are the caller's again. */
static void continuation_state(struct state *s, int32_t moved, unsigned writes)
{
	struct value *sp = &s->reg[ETCH_REG_RSP];
	unsigned i, n, r;

	state_call(s);
	for (r = 0; r < 16; r++)
		if (writes >> r & 1)
			s->reg[r] = (struct value){0};
	if (sp->kind != VALUE_ANY)
		sp->off += moved;
	for (i = n = 0; i < s->slot_count; i++) {
		struct slot x = s->slot[i];
		bool below = sp->kind == (x.aligned ? VALUE_ALIGNED : VALUE_CFA) && x.at < sp->off;

		if (x.value.kind != VALUE_ENTRY || (x.aligned && sp->kind == VALUE_CFA))
			continue;
		if (!below) {
			s->slot[n++] = x;
		} else if (writes & STEP_CALLEE_SAVED & 1u << x.value.reg) {
			s->reg[x.value.reg] = (struct value){.kind = VALUE_ENTRY, .reg = x.value.reg};
			s->known |= (uint16_t)(1u << x.value.reg);
		}
	}
	s->slot_count = (uint8_t)n;
}

void flow_continuation_note(struct flow *f, uint64_t off, const struct state *before)
{
	const struct flow_env *env = f->in.env;
	uint64_t addr = f->in.range->start + off;
	size_t i = SEARCH(env->continuation_count, k, env->continuations[k].at < addr);
	const struct flow_continuation *c = &env->continuations[i];
	struct state s;

	if (i == env->continuation_count || c->at != addr || before->dead)
		return;
	if (c->unknown) {
		flow_unknown_state(&s);
		continuation_enter(f, c->label, &s);
	}
	if (c->jumped) {
		state_copy(&s, before);
		continuation_state(&s, c->jump_moved, c->writes);
		continuation_enter(f, c->label, &s);
	}
	if (c->called) {
		state_entry(&s);
		s.abi_flags = before->abi_flags;
		s.weak = before->weak;
		continuation_state(&s, c->call_moved, c->writes);
		continuation_enter(f, c->label, &s);
	}
}
