/* SPDX-License-Identifier: MIT */
/*
 * Handlers of an interpreter: basic blocks of one computed goto, which lies in several code ranges. They run in the
 * frame of the function that makes the first of these jumps, and find that frame by rbp; rsp may be anywhere.
 * interproc/interpreters.c decides which code ranges are handlers, from the results that are set here.
 */
#include "analysis/flow/flow_internal.h"
#include "arch/x86/insn.h"

bool flow_has_frame(const struct state *s)
{
	struct etch_rule rule;

	if (s->reg[ETCH_REG_RBP].kind != VALUE_CFA || s->reg[ETCH_REG_RBP].off != -16)
		return false;
	state_rule(s, &rule);
	return rule.kind == ETCH_RULE_CALL && rule.cfa == ETCH_REG_RBP && rule.cfa_off == 16 && !rule.ra &&
	       rule.bp == ETCH_BP_CFA && rule.bp_off == -16;
}

/* Has a handler taken the frame down, so that the return address is on top of the stack and rbp is the caller's? */
static bool is_left(const struct state *s) { return state_returns(s) && state_has_callers_rbp(s); }

/*
 * Identifies the table of addresses through which a jump goes, if the table is not followed. Returns its address, or,
 * with the low bit set, the address of the word from which its address is loaded, such as a GOT slot. Returns 0 if the
 * jump goes through no table, or through an unknown one.
 */
static uint32_t table_of(const struct flow *f, uint64_t off, const struct step *in, const struct flow_jump *j)
{
	struct insn load;

	if (!j->table || j->entries || j->what.reg != 8)
		return 0;
	if (j->what.off || !in->deref || !flow_loaded(f, off, in->b, &load) || load.base != INSN_PC_REG || load.segment)
		return (uint32_t)j->what.off;
	return (uint32_t)(load.addr + load.len + (uint64_t)load.disp) | 1;
}

/* Records a jump through a table of addresses that is not followed, since it may be the jump by which an interpreter
 * dispatches. */
static void dispatch_note(struct flow *f, uint32_t table, const struct state *before)
{
	struct etch_rule rule;

	if (!table)
		return;
	state_rule(before, &rule);
	if (flow_has_frame(before)) {
		f->found.dispatch = table;
	} else if (rule.kind != ETCH_RULE_UNDEF) {
		f->found.dispatch_otherwise = table;
		f->found.breaks_frame = true;
	}
}

void flow_handler_note(struct flow *f, uint64_t off, const struct step *in, const struct state *before)
{
	if (in->flow == FLOW_JUMP_IND && in->number)
		dispatch_note(f, table_of(f, off, in, &f->jumps[in->number - 1]), before);
	if (!f->in.handler)
		return;
	if (in->flow == FLOW_RETURN) {
		f->found.keeps_frame |= is_left(before);
		f->found.breaks_frame |= !is_left(before);
	} else if (in->flow == FLOW_JUMP_IND) {                    /* a tail call, whose frame may be on top of the stack */
		f->found.keeps_frame |= state_has_callers_rbp(before); /* which was loaded from the handler's frame */
	}
}
