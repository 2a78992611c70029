/* SPDX-License-Identifier: MIT */
/*
 * Handlers of an interpreter: basic blocks of one computed goto, which lies in several code ranges. They run in the
 * frame of the function that dispatches first, and find it by rbp; rsp may be anywhere. Which code ranges are handlers,
 * interproc/interpreters.c decides, by what is noted here.
 */
#include "analysis/flow/flow_internal.h"

#include <string.h>

/* Adds a slot with an entry value at CFA + at; the caller sets of which register. */
static struct value *slot_put(struct state *s, int32_t at)
{
	struct slot *x = &s->slot[s->slot_count++];

	memset(x, 0, sizeof(*x));
	x->at = at;
	x->value.kind = VALUE_ENTRY;
	return &x->value;
}

void flow_handler_state(struct state *s)
{
	memset(s, 0, offsetof(struct state, slot));
	s->reg[ETCH_REG_RBP] = (struct value){.kind = VALUE_CFA, .off = -16};
	s->known = 1u << ETCH_REG_RBP | 1u << ETCH_REG_RSP;
	s->lowest = -16;
	s->constants = EFFECT_CONSTANT;
	s->weak = true;
	slot_put(s, -8)->reg = REG_RA;
	slot_put(s, -16)->reg = ETCH_REG_RBP;
}

bool flow_has_frame(const struct state *s)
{
	struct etch_rule rule;

	if (s->reg[ETCH_REG_RBP].kind != VALUE_CFA || s->reg[ETCH_REG_RBP].off != -16)
		return false;
	state_rule(s, &rule);
	return rule.kind == ETCH_RULE_CALL && rule.cfa == ETCH_REG_RBP && rule.cfa_off == 16 && !rule.ra &&
	       rule.bp == ETCH_BP_CFA && rule.bp_off == -16;
}

/* Is a value of rbp the caller's, which a handler can only have from the frame? */
static bool is_callers(const struct value *bp) { return bp->kind == VALUE_ENTRY && bp->reg == ETCH_REG_RBP; }

/* Has the handler taken the frame down: is the return address on top, and rbp the caller's? */
static bool is_left(const struct state *s) { return state_returns(s) && is_callers(&s->reg[ETCH_REG_RBP]); }

/* Notes a jump through a table of addresses that is not followed: the dispatch of an interpreter, perhaps. */
static void dispatch_note(struct flow *f, const struct flow_jump *j, const struct state *before)
{
	struct etch_rule rule;

	if (!j->table || j->entries || j->what.reg != 8 || !j->what.off)
		return;
	state_rule(before, &rule);
	if (flow_has_frame(before)) {
		f->found.dispatch = (uint32_t)j->what.off;
	} else if (rule.kind != ETCH_RULE_UNDEF) {
		f->found.dispatch_otherwise = (uint32_t)j->what.off;
		f->found.breaks_frame = true;
	}
}

void flow_handler_note(struct flow *f, const struct step *in, const struct state *before)
{
	if (in->flow == FLOW_JUMP_IND && in->number)
		dispatch_note(f, &f->jumps[in->number - 1], before);
	if (!f->in.handler)
		return;
	if (in->flow == FLOW_RETURN) {
		f->found.keeps_frame |= is_left(before);
		f->found.breaks_frame |= !is_left(before);
	} else if (in->flow == FLOW_JUMP_IND) { /* a tail call, whose frame the handler may have made where rsp is */
		f->found.keeps_frame |= is_callers(&before->reg[ETCH_REG_RBP]);
	}
}
