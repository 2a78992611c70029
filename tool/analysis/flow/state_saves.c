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

/* For each register, the slot with the caller's value that is nearest to the CFA: its index + 1, or 0. */
struct nearest {
	uint8_t slot[16];
};

static struct nearest nearest_slots(const struct state *s)
{
	struct nearest n = {{0}};
	unsigned i;

	for (i = 0; i < s->slot_count; i++) {
		const struct slot *x = &s->slot[i], *best;
		uint8_t *at = &n.slot[x->value.reg & 15];

		if (x->value.kind != VALUE_ENTRY || x->value.reg >= 16 || !is_safe(s, x))
			continue;
		best = *at ? &s->slot[*at - 1] : NULL;
		if (!best || (best->aligned && !x->aligned) || (best->aligned == x->aligned && x->at > best->at))
			*at = (uint8_t)(i + 1);
	}
	return n;
}

static const uint8_t registers[5] = {3, 12, 13, 14, 15};

unsigned saves_registers(const struct etch_cfi_saves *saves)
{
	unsigned i, mask = 0;

	for (i = 0; i < 5; i++)
		if (saves->how[i] == ETCH_SAVE_SAME)
			mask |= 1u << registers[i];
		else if (saves->how[i] != ETCH_SAVE_CFA)
			mask |= 1u << registers[i] | 1u << RBP;
	return mask;
}

bool saves_outlast_calls(const struct state *s, const struct etch_cfi_saves *saves, int32_t bp)
{
	struct value sp = s->reg[RSP];
	unsigned i;

	if (sp.kind != VALUE_CFA || (bp && bp < sp.off))
		return false;
	for (i = 0; i < 5; i++)
		if (saves->how[i] == ETCH_SAVE_CFA ? saves->off[i] < sp.off
		                                   : saves->how[i] == ETCH_SAVE_RBP || saves->how[i] == ETCH_SAVE_RSP)
			return false;
	return true;
}

bool saves_same(const struct state *a, const struct state *b)
{
	unsigned i;

	if (a->slot_count != b->slot_count || memcmp(&a->reg[3], &b->reg[3], 3 * sizeof(*a->reg)) != 0 ||
	    memcmp(&a->reg[12], &b->reg[12], 4 * sizeof(*a->reg)) != 0) /* rbx, rsp, rbp, r12 to r15 */
		return false;
	for (i = 0; i < a->slot_count; i++)
		if (memcmp(&a->slot[i], &b->slot[i], sizeof(*a->slot)) != 0)
			return false;
	return true;
}

int32_t state_saves(const struct state *s, struct etch_cfi_saves *out)
{
	const struct nearest n = nearest_slots(s);
	const struct slot *bp = n.slot[RBP] ? &s->slot[n.slot[RBP] - 1] : NULL;
	unsigned i;

	memset(out, 0, sizeof(*out));
	for (i = 0; i < 5; i++) {
		const unsigned at = n.slot[registers[i]];
		const struct slot *x = at ? &s->slot[at - 1] : NULL;
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
	return bp && !bp->aligned ? bp->at : 0;
}
