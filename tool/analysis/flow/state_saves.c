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

static const uint8_t registers[5] = {3, 12, 13, 14, 15}; /* rbx, r12 to r15, as in struct etch_cfi_saves */

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

bool saves_hold(const struct state *a, const struct state *b, unsigned registers)
{
	unsigned i;

	for (registers |= 1u << RSP; registers; registers &= registers - 1) {
		i = (unsigned)__builtin_ctz(registers);
		if (memcmp(&a->reg[i], &b->reg[i], sizeof(*a->reg)))
			return false;
	}
	return a->slot_count == b->slot_count && !memcmp(a->slot, b->slot, a->slot_count * sizeof(*a->slot));
}

/* For each of `registers`, and rbp behind them, the slot with the caller's value that is nearest to the CFA, or null.
 */
struct nearest {
	const struct slot *slot[6];
};

/* Finds these slots, without those that others may have overwritten. */
static void nearest_slots(const struct state *s, struct nearest *n)
{
	static const uint8_t place[16] = {[3] = 1, [12] = 2, [13] = 3, [14] = 4, [15] = 5, [RBP] = 6}; /* + 1 */
	unsigned i;

	*n = (struct nearest){{0}};
	for (i = 0; i < s->slot_count; i++) {
		const struct slot *x = &s->slot[i], **best;

		if (x->value.kind != VALUE_ENTRY || x->value.reg >= 16 || !place[x->value.reg] || !is_safe(s, x))
			continue;
		best = &n->slot[place[x->value.reg] - 1];
		if (!*best || ((*best)->aligned && !x->aligned) || ((*best)->aligned == x->aligned && x->at > (*best)->at))
			*best = x;
	}
}

int32_t state_saves(const struct state *s, struct etch_cfi_saves *out)
{
	struct nearest n;
	unsigned i;

	nearest_slots(s, &n);
	memset(out, 0, sizeof(*out));
	for (i = 0; i < 5; i++) {
		const struct slot *x = n.slot[i];
		const struct value *v = &s->reg[registers[i]];

		if (x && !x->aligned) {
			out->how[i] = ETCH_SAVE_CFA;
			out->off[i] = x->at;
		} else if (v->kind == VALUE_ENTRY && v->reg == registers[i]) {
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
	return n.slot[5] && !n.slot[5]->aligned ? n.slot[5]->at : 0;
}
