/* SPDX-License-Identifier: MIT */
/* Values that are one of two: what compilers make of a ? &o.x : &o.y, and of an index that is the outcome of a
 * condition. */
#include "analysis/addresses/track_internal.h"

bool track_choice(struct track *t, const struct addr_state *s, size_t i, uint16_t *data, struct addr_value *out,
                  unsigned *reg)
{
	const struct insn *in = &t->f->code->insns[i];
	const uint8_t *bytes = func_bytes_of(t->f->fn, in);
	unsigned source, shift, bit = insn_setcc_register(bytes, in);

	*reg = bit < REGS ? bit : in->dst;
	if (*reg >= REGS || in->move != MOVE_NONE)
		return false;
	source = insn_cmov_source(bytes, in);
	shift = insn_left_shift(bytes, in);
	*out = s->reg[*reg];
	if (source < REGS) {
		*data &= (uint16_t) ~(1u << in->dst | 1u << source);
		if (out->object != s->reg[source].object && track_only_set(t, i + 1, in->dst))
			*out = nothing;
		else
			track_join(t, i, in->dst, out, &s->reg[source]);
		out->choice |= out->object < 0;
		return true;
	}
	if (insn_clears_register(bytes, in)) {
		*out = nothing;
		out->exact = true;
		return true;
	}
	if (out->object >= 0 || out->off)
		return false;
	if (bit < REGS && out->exact) {
		out->exact = false;
		out->placed = true;
		out->more_count = 1;
		out->more[0] = 1;
	} else if (shift && out->more_count == 1 && out->more[0] == 1) {
		out->more[0] = (int64_t)1 << shift;
	} else {
		return false;
	}
	out->choice = true;
	return true;
}
