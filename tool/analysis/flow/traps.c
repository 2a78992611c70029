/* SPDX-License-Identifier: MIT */
/*
 * Exception handlers that code links into a list at run time, without an LSDA:
 *
 * lea handler(%rip), %r; push %r; push HEAD; mov %rsp, HEAD
 *
 * HEAD, the head of the list, is a field of a structure or a register. To raise an exception, code loads rsp from HEAD,
 * pops the old value into HEAD, and returns to the handler. So the handler begins with the rsp from before the two
 * pushes. No other register is restored.
 */
#include "analysis/flow/flow_internal.h"

/* Does an instruction push the old value of HEAD, the register or field to which `head` stores rsp? */
static bool pushes_head(const struct step *in, const struct step *head)
{
	if (in->op != STEP_PUSH || in->imm != 8)
		return false;
	if (head->op == STEP_MOVE)
		return in->a == head->a;
	return in->a == INSN_NO_REG && in->index == INSN_NO_REG && in->b == head->b && in->disp == head->disp;
}

/* Does an instruction store rsp to a place that may be HEAD? rbp is none: mov %rsp,%rbp sets up a frame pointer. */
static bool is_head(const struct step *in)
{
	if (in->op == STEP_MOVE)
		return in->b == ETCH_REG_RSP && in->a < 16 && in->a != ETCH_REG_RSP && in->a != ETCH_REG_RBP;
	return in->op == STEP_STORE && in->a == ETCH_REG_RSP && in->b < 16 && in->b != ETCH_REG_RSP &&
	       in->b != ETCH_REG_RBP;
}

uint64_t flow_trap(const struct flow *f, const struct step *head, uint64_t off)
{
	const struct step *in;
	unsigned reg;

	if (!is_head(head) || !(in = flow_step_before(f, off)) || !pushes_head(in, head))
		return 0;
	off -= in->len;
	if (!(in = flow_step_before(f, off)) || in->op != STEP_PUSH || in->a >= 16)
		return 0;
	off -= in->len;
	reg = in->a;
	if (!(in = flow_step_before(f, off)) || in->op != STEP_ADDRESS || in->b != INSN_PC_REG || in->a != reg)
		return 0;
	return flow_inside(f, (uint64_t)in->imm) ? (uint64_t)in->imm : 0;
}

/* Is the CFA that .eh_frame gives at an address the one of state s? */
static bool has_cfa(const struct flow *f, uint64_t addr, const struct state *s)
{
	const struct etch_cfi_row *row = flow_cfi_at(f, addr);
	struct value sp = s->reg[ETCH_REG_RSP];

	return row && row->rule.kind == ETCH_RULE_CALL && row->rule.cfa == ETCH_REG_RSP && sp.kind == VALUE_CFA &&
	       row->rule.cfa_off == -(int64_t)sp.off;
}

void flow_trap_state(const struct flow *f, const struct state *head, uint64_t handler, struct state *out)
{
	unsigned r, i = 0;

	state_copy(out, head);
	for (r = 0; r < 16; r++)
		if (r != ETCH_REG_RSP)
			out->reg[r] = (struct value){0};
	out->known = 1u << ETCH_REG_RSP;
	out->reg[ETCH_REG_RSP].off += 16;
	/* Only the slot of the return address stays: the code that has raised the exception may have overwritten the
	 * others. */
	while (i < out->slot_count)
		if (value_is_entry(out->slot[i].value, REG_RA))
			i++;
		else
			out->slot[i] = out->slot[--out->slot_count];
	/* The analysis has not seen how the exception is raised, so the state is weak, and .eh_frame takes precedence. If
	 * .eh_frame has the same CFA, it confirms the state, which then is not weak. */
	out->weak = head->weak || !has_cfa(f, handler, out);
}
