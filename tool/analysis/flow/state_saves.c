/* SPDX-License-Identifier: MIT */
/* Finds the caller's values of the callee-saved registers in a state. */
#include "analysis/flow/state_saves.h"

#include "analysis/flow/state_internal.h"

#define RED_ZONE 128 /* bytes below rsp that signal handlers leave alone (psABI, 3.2.2) */

/* Can nobody but this code have written to a slot? Below the red zone signal handlers may. */
static bool is_safe(const struct state *s, const struct slot *x)
{
	struct value sp = s->reg[RSP];

	if (sp.kind != (x->aligned ? VALUE_ALIGNED : VALUE_CFA))
		return true; /* rsp is below all of the frame */
	return (int64_t)x->at >= (int64_t)sp.off - RED_ZONE;
}

/* The slot with the caller's value of register r that is nearest to the CFA, or null. */
static const struct slot *slot_of(const struct state *s, unsigned r)
{
	const struct slot *best = NULL;
	unsigned i;

	for (i = 0; i < s->slot_count; i++) {
		const struct slot *x = &s->slot[i];

		if (x->value.kind != VALUE_ENTRY || x->value.reg != r || !is_safe(s, x))
			continue;
		if (!best || (best->aligned && !x->aligned) || (best->aligned == x->aligned && x->at > best->at))
			best = x;
	}
	return best;
}

int32_t state_rbp_slot(const struct state *s)
{
	const struct slot *x = slot_of(s, RBP);

	return x && !x->aligned ? x->at : 0;
}

void state_saves(const struct state *s, struct etch_cfi_saves *out)
{
	static const uint8_t registers[5] = {3, 12, 13, 14, 15};
	unsigned i;

	memset(out, 0, sizeof(*out));
	for (i = 0; i < 5; i++) {
		const struct slot *x = slot_of(s, registers[i]);
		const struct value v = s->reg[registers[i]];

		if (x && !x->aligned) {
			out->how[i] = ETCH_SAVE_CFA;
			out->off[i] = x->at;
		} else if (v.kind == VALUE_ENTRY && v.reg == registers[i]) {
			out->how[i] = ETCH_SAVE_SAME;
		} else if (x && s->reg[RBP].kind == VALUE_ALIGNED) {
			out->how[i] = ETCH_SAVE_RBP;
			out->off[i] = x->at - s->reg[RBP].off;
		} else if (x && s->reg[RSP].kind == VALUE_ALIGNED) {
			out->how[i] = ETCH_SAVE_RSP;
			out->off[i] = x->at - s->reg[RSP].off;
		} else {
			out->how[i] = ETCH_SAVE_OTHER;
		}
	}
}
