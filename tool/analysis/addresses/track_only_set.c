/* SPDX-License-Identifier: MIT */
/* Is a register used only as the address of a set? Where a program's setter gets one of several objects, their
 * addresses meet in one register, which then goes through the lea of ETCH_ADDR and nowhere else. */
#include "analysis/addresses/frame_slots.h"
#include "analysis/addresses/track_internal.h"

/* At most this many instructions lie between the join and the death of the register. */
#define REACH 32

/* Does an instruction give the register a value that does not depend on the previous one? */
static bool is_overwritten(const struct track *t, const struct insn *in, unsigned reg)
{
	const uint8_t *bytes = func_bytes_of(t->f->fn, in);

	switch (in->move) {
	case MOVE_COPY:
	case MOVE_IMM:
	case MOVE_LOAD:
	case MOVE_ADDRESS: return in->dst == reg;
	case MOVE_NONE: return (in->writes >> reg & 1) && insn_clears_register(bytes, in);
	default: return false;
	}
}

/* Is the register dead after a call, and none of its arguments? */
static bool ends_with_call(const struct track *t, const struct insn *in, unsigned reg)
{
	uint16_t clobbered = insn_call_clobbers();

	if (in->callee >= 0 && t->f->clobbers) {
		if (t->f->clobbers->vague[in->callee])
			return false;
		if (func_is_start(t->f->clobbers, in->callee, in->entry))
			clobbered &= func_clobbers(t->f->clobbers, in->callee);
	}
	return (clobbered & ~track_passed(t, in, insn_call_arguments())) >> reg & 1;
}

bool track_only_set(const struct track *t, size_t insn, unsigned reg)
{
	const struct func_code *c = t->f->code;
	unsigned n;

	if (t->f->entries->fault_count)
		return false; /* a fixup gets the register as it is */
	for (n = 0; n < REACH && insn < c->count; n++, insn++) {
		const struct insn *in = &c->insns[insn];
		bool of_set = in->no_escape && in->mem == MEM_ADDRESS && in->base == reg && in->index == INSN_NO_REG;

		if (in->newer || in->string ||
		    ((insn_uses(in) >> reg & 1) && !of_set && !frame_push_is_overwritten(t->f, insn)))
			return false;
		if (is_overwritten(t, in, reg))
			return true;
		if (in->flow == FLOW_CALL)
			return ends_with_call(t, in, reg);
		if (in->flow == FLOW_JUMP && in->callee < 0) {
			insn = func_insn_at(c, in->target);
			if (insn == SIZE_MAX)
				return false;
			insn--; /* wraps for the first instruction, and is incremented again */
		} else if (in->flow != FLOW_NEXT) {
			return false;
		}
	}
	return false;
}
