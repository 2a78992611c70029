/* SPDX-License-Identifier: MIT */
/* Finds the caller's values of the callee-saved registers in a state. */
#include "analysis/flow/state_saves.h"

#include "analysis/flow/state_internal.h"

#define RED_ZONE 128       /* bytes below rsp that signal handlers leave alone (psABI, 3.2.2) */
#define NOWHERE  INT32_MIN /* there is no slot */

static const uint8_t registers[5] = {3, 12, 13, 14, 15}; /* rbx, r12 to r15, as in struct etch_cfi_saves */

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

/* Finds register i where it is neither in its register nor in a slot at a known distance from the CFA: in a realigned
 * frame it is in the slot nearest to the base, as far as nothing else can have written there. */
static __attribute__((noinline)) void aligned_save(const struct state *s, unsigned i, struct etch_cfi_saves *out)
{
	struct value sp = s->reg[RSP], bp = s->reg[RBP], base = bp.kind == VALUE_ALIGNED ? bp : sp;
	const struct slot *best = NULL;
	unsigned k;

	for (k = 0; k < s->slot_count; k++) {
		const struct slot *x = &s->slot[k];

		if (x->aligned && x->value.kind == VALUE_ENTRY && x->value.reg == registers[i] && (!best || x->at > best->at) &&
		    (sp.kind != VALUE_ALIGNED || (int64_t)x->at >= (int64_t)sp.off - RED_ZONE))
			best = x;
	}
	out->how[i] = ETCH_SAVE_OTHER;
	if (!best || base.kind != VALUE_ALIGNED)
		return;
	out->how[i] = bp.kind == VALUE_ALIGNED ? ETCH_SAVE_RBP : ETCH_SAVE_RSP;
	out->off[i] = best->at - base.off;
}

int32_t state_saves(const struct state *s, struct etch_cfi_saves *out, unsigned *depends)
{
	static const uint8_t place[32] = {[3] = 1, [12] = 2, [13] = 3, [14] = 4, [15] = 5, [RBP] = 6}; /* 0: any other */
	/* Signal handlers may write below the red zone; where rsp is not known relative to the CFA, it is below all of the
	 * frame. */
	int64_t lowest = s->reg[RSP].kind == VALUE_CFA ? (int64_t)s->reg[RSP].off - RED_ZONE : INT64_MIN;
	int32_t off[7] = {NOWHERE, NOWHERE, NOWHERE, NOWHERE, NOWHERE, NOWHERE, NOWHERE};
	unsigned i;

	for (i = 0; i < s->slot_count; i++) {
		const struct slot *x = &s->slot[i];
		int32_t *best = &off[place[x->value.reg & 31u]];

		if (x->value.kind == VALUE_ENTRY && !x->aligned && x->at >= lowest && x->at > *best)
			*best = x->at;
	}
	memset(out, 0, sizeof(*out));
	*depends = 0;
	for (i = 0; i < 5; i++) {
		unsigned r = registers[i];

		if (off[i + 1] != NOWHERE) {
			out->how[i] = ETCH_SAVE_CFA;
			out->off[i] = off[i + 1];
			continue;
		}
		*depends |= 1u << r;
		if (s->reg[r].kind == VALUE_ENTRY && s->reg[r].reg == r)
			continue; /* ETCH_SAVE_SAME */
		aligned_save(s, i, out);
		*depends |= 1u << RBP;
	}
	return off[6] == NOWHERE ? 0 : off[6];
}
