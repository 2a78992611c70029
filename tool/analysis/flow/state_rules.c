/* SPDX-License-Identifier: MIT */
/* Makes the unwind rule that a state proves, finds where in a state the caller's registers are, and compares rules from
 * other sources with a state. */
#include "analysis/flow/state_internal.h"
#include "analysis/facts/cfi_file.h"

#include <stdio.h>
#include <stdlib.h>

/* Returns the slot that holds the caller's rbp, or null. */
static const struct slot *rbp_slot(const struct state *s)
{
	const struct slot *best = NULL;
	unsigned i;

	for (i = 0; i < s->slot_count; i++) {
		const struct slot *x = &s->slot[i];

		if (!value_is_entry(x->value, RBP))
			continue;
		/* Of several slots, takes the one nearest to the CFA, which was written first. */
		if (!best || (best->aligned && !x->aligned) || (best->aligned == x->aligned && x->at > best->at))
			best = x;
	}
	return best;
}

/* Is a slot below rsp? Callees overwrite memory there, and signal handlers do outside of the red zone. So if a register
 * holds the same value, the register is preferred to such a slot. */
static inline bool is_below_sp(const struct state *s, const struct slot *x)
{
	return s->reg[RSP].kind == (x->aligned ? VALUE_ALIGNED : VALUE_CFA) && x->at < s->reg[RSP].off;
}

/* Sets out->bp and out->bp_off: how the caller's rbp is found. Returns false if the state does not show it. */
static inline __attribute__((always_inline)) bool rule_bp(const struct state *s, struct etch_rule *out)
{
	const struct slot *x = rbp_slot(s);

	/* If both the register and a slot hold it, the slot is used until the register is reloaded or the slot is
	 * popped. */
	if (state_has_callers_rbp(s) &&
	    (s->reg[RBP].reloaded || (x && x->aligned && (s->abi_flags & ABI_NO_RED_ZONE)) || (x && is_below_sp(s, x)))) {
		out->bp = ETCH_BP_SAME;
	} else if (x && !x->aligned) {
		out->bp = ETCH_BP_CFA;
		out->bp_off = x->at;
	} else if (x && s->reg[RBP].kind == VALUE_ALIGNED) {
		out->bp = ETCH_BP_RBP;
		out->bp_off = x->at - s->reg[RBP].off;
	} else if (x && s->reg[RSP].kind == VALUE_ALIGNED) {
		out->bp = ETCH_BP_RSP;
		out->bp_off = x->at - s->reg[RSP].off;
	} else if (state_has_callers_rbp(s)) {
		out->bp = ETCH_BP_SAME;
	} else {
		out->bp = ETCH_BP_UNDEF;
	}
	return out->bp != ETCH_BP_UNDEF;
}

/* If the state proves that the CFA is register r + a constant, sets the CFA of *out to that and returns true. */
static bool rule_register(const struct state *s, unsigned r, struct etch_rule *out)
{
	if (s->reg[r].kind != VALUE_CFA || s->reg[r].off == INT32_MIN)
		return false;
	out->cfa = (uint8_t)r;
	out->cfa_off = -s->reg[r].off;
	return true;
}

/* If the state proves that a slot which register r points to or near holds CFA + a constant, sets the CFA of *out to be
 * computed from that slot and returns true. With `below`, only slots below rsp count; without it, only the others. */
static bool rule_slot(const struct state *s, unsigned r, bool below, struct etch_rule *out)
{
	unsigned i;

	if (!is_address(s->reg[r]))
		return false;
	for (i = 0; i < s->slot_count; i++) {
		const struct slot *x = &s->slot[i];

		if (x->value.kind != VALUE_CFA || x->aligned != (s->reg[r].kind == VALUE_ALIGNED) || below != is_below_sp(s, x))
			continue;
		out->cfa = (uint8_t)(r | ETCH_CFA_DEREF);
		out->cfa_off = x->at - s->reg[r].off;
		out->cfa_add = -x->value.off;
		return true;
	}
	return false;
}

/* Is the return address in any register or slot? */
static bool ra_known(const struct state *s)
{
	unsigned i;

	for (i = 0; i < 16; i++)
		if (value_is_entry(s->reg[i], REG_RA))
			return true;
	for (i = 0; i < s->slot_count; i++)
		if (value_is_entry(s->slot[i].value, REG_RA))
			return true;
	return false;
}

/* Returns the slot nearest to the CFA that holds the return address, or null. With `below`, only slots below rsp count,
 * where signal handlers and callees may write; without it, only the others. */
static const struct slot *ra_slot(const struct state *s, bool below)
{
	int32_t sp = s->reg[RSP].kind == VALUE_CFA ? s->reg[RSP].off : INT32_MIN;
	const struct slot *best = NULL;
	unsigned i;

	for (i = 0; i < s->slot_count; i++) {
		const struct slot *x = &s->slot[i];

		if (!value_is_entry(x->value, REG_RA) || x->aligned || below != (x->at < sp))
			continue;
		if (x->at == -8)
			return x;
		if (!best || x->at > best->at)
			best = x;
	}
	return best;
}

/* Sets in *out that the return address is in slot x. Returns false if x is null, or if the rule cannot say that. */
static bool rule_ra_slot(const struct slot *x, struct etch_rule *out)
{
	if (!x || (x->at != -8 && (out->cfa & ETCH_CFA_DEREF)))
		return false;
	if (x->at != -8) {
		out->ra = ETCH_RA_SLOT;
		out->cfa_add = x->at;
	}
	return true;
}

/*
 * Sets in *out how the return address is found, and returns false if the state does not show it. Any copy will do; in
 * order of preference: the one where the call has put it, another slot, a callee-saved register, any other register, a
 * slot below rsp.
 */
static inline bool rule_ra(const struct state *s, struct etch_rule *out)
{
	static const uint8_t order[] = {STEP_KEPT_FIRST};
	unsigned i;

	if (state_ra_in_place(s) || rule_ra_slot(ra_slot(s, false), out))
		return true;
	for (i = 0; i < sizeof(order); i++)
		if (value_is_entry(s->reg[order[i]], REG_RA)) {
			out->ra = (uint8_t)(ETCH_RA_REG | order[i]);
			return true;
		}
	return rule_ra_slot(ra_slot(s, true), out);
}

/*
 * Sets in *out how the CFA is found, and returns false if the state does not show it. In order of preference: by rbp,
 * if that is a frame pointer (push %rbp; mov %rsp,%rbp has saved the caller's rbp just below the return address), since
 * .eh_frame uses it there and alloca does not change it; by rsp; by any other value of rbp; by a slot relative to rbp
 * or rsp, since an unwinder knows these two registers in every frame; by any other register; by a slot below rsp.
 */
static inline __attribute__((always_inline)) bool rule_cfa(const struct state *s, struct etch_rule *out, bool noted)
{
	static const uint8_t others[] = {STEP_KEPT_FIRST_BUT_FRAME};
	const struct slot *x;
	unsigned i;

	x = s->reg[RBP].kind == VALUE_CFA && (s->reg[RBP].off == -16 || (noted && (s->abi_flags & ABI_NO_RED_ZONE)))
	        ? slot_at(s, s->reg[RBP])
	        : NULL;
	if ((x && value_is_entry(x->value, RBP) && rule_register(s, RBP, out)) || rule_register(s, RSP, out) ||
	    rule_register(s, RBP, out) || rule_slot(s, RBP, false, out) || rule_slot(s, RSP, false, out))
		return true;
	for (i = 0; i < sizeof(others); i++)
		if (rule_register(s, others[i], out))
			return true;
	return rule_slot(s, RBP, true, out) || rule_slot(s, RSP, true, out);
}

/* Makes the rule that a state proves. `noted`: the file has notes, or the code departs from the psABI
 * (state.abi_flags). */
static inline __attribute__((always_inline)) void rule_make(const struct state *s, struct etch_rule *out, bool noted)
{
	memset(out, 0, sizeof(*out));
	if (noted && s->frame == FRAME_MIXED)
		return;
	if (!rule_cfa(s, out, noted)) {
		out->kind = noted && s->frame == FRAME_END ? ETCH_RULE_END : ETCH_RULE_UNDEF;
		return;
	}
	if (noted && s->frame) {
		out->kind = s->frame; /* the registers of the interrupted code are in memory, so the rule needs only the CFA */
		return;
	}
	out->kind = ETCH_RULE_CALL;
	rule_bp(s, out);
	if (!rule_ra(s, out))
		memset(out, 0, sizeof(*out));
}

/*
 * Makes the rule for code whose callers find their frames by rbp, if rbp is the caller's and a register holds the
 * return address. Such code moves rsp by a number of words that is in a register, before it pushes the return address
 * again. The caller needs only rbp and the return address, so the CFA is taken to be rsp, as it is directly before that
 * push.
 */
static void rule_return(const struct state *s, struct etch_rule *out)
{
	static const uint8_t order[] = {STEP_KEPT_FIRST};
	unsigned i;

	if (!(s->abi_flags & ABI_FRAMES_BY_RBP) || !state_has_callers_rbp(s))
		return;
	for (i = 0; i < sizeof(order) && !value_is_entry(s->reg[order[i]], REG_RA); i++)
		;
	if (i == sizeof(order))
		return;
	*out = (struct etch_rule){.cfa = RSP, .kind = ETCH_RULE_CALL, .ra = (uint8_t)(ETCH_RA_REG | order[i])};
}

/* Implements state_rule() for files with notes, and for code that departs from the psABI. It is out of line so that it
 * does not slow down state_rule() for other code. */
static __attribute__((noinline, cold)) void rule_noted(const struct state *s, struct etch_rule *out)
{
	rule_make(s, out, true);
	if (out->kind == ETCH_RULE_UNDEF || (out->cfa == RSP && out->cfa_off < 0))
		rule_return(s, out);
}

void state_rule(const struct state *s, struct etch_rule *out)
{
	if (__builtin_expect(s->frame | s->abi_flags, 0))
		rule_noted(s, out);
	else
		rule_make(s, out, false);
}

void state_leaves_check(const struct state *s, const struct step *in)
{
	bool known = true;
	struct state done;
	unsigned r;

	for (r = 0; r < 16; r++)
		known &= (s->known >> r & 1) || s->reg[r].kind == VALUE_ANY;
	state_copy(&done, s);
	state_transfer(&done, in, 0);
	if (known && state_same(&done, s))
		return;
	fprintf(stderr, "state: an instruction of kind %u changes what it is said to leave\n", in->op);
	abort();
}

/* Checks state_rules_same() in builds with ETCH_CHECK_STEPS (make asan). */
static inline void same_check(const struct state *a, const struct state *b)
{
#ifdef ETCH_CHECK_STEPS
	struct etch_rule x, y;

	state_rule(a, &x);
	state_rule(b, &y);
	if (!memcmp(&x, &y, sizeof(x)))
		return;
	fprintf(stderr, "state: two have not the same rule\n");
	abort();
#else
	(void)a, (void)b;
#endif
}

bool state_rules_same(const struct state *a, const struct state *b)
{
	const unsigned frame = bit(RSP) | bit(RBP);
	unsigned mask;

	if (memcmp(&a->reg[RSP], &b->reg[RSP], 2 * sizeof(a->reg[0])) || a->align != b->align || a->weak | b->weak ||
	    a->frame != b->frame || a->slot_count != b->slot_count ||
	    memcmp(a->slot, b->slot, a->slot_count * sizeof(a->slot[0])))
		return false;
	mask = state_rule_by_frame(a) ? 0 : (a->known | b->known) & ~frame; /* rsp and the slots are the same in both */
	for (; mask; mask &= mask - 1) {
		unsigned r = (unsigned)__builtin_ctz(mask);

		if (state_rules(a, r) || state_rules(b, r))
			return false;
	}
	same_check(a, b);
	return true;
}

/*
 * Does register r hold the caller's value? Then a rule whose CFA is r plus a positive offset is wrong, since the
 * caller's value cannot point into this function's frame. (Tables have such rules in functions with rbp as frame
 * pointer, before the prologue and after the epilogue.)
 */
static bool is_callers(const struct state *s, unsigned r)
{
	return value_is_entry(s->reg[r], r) && (STEP_CALLEE_SAVED >> r & 1) && s->reg[RSP].kind == VALUE_CFA;
}

/* Judges the part of a rule that concerns the CFA. */
static enum witness cfa_witness(const struct state *s, const struct etch_rule *rule)
{
	struct value v = s->reg[rule->cfa & 15u], w;

	if (rule->cfa & ETCH_CFA_INDEX)
		return WITNESS_SILENT; /* an array of unknown length */
	if (!(rule->cfa & ETCH_CFA_DEREF)) {
		if (v.kind == VALUE_CFA)
			return -(int64_t)v.off == rule->cfa_off ? WITNESS_CONFIRMS : WITNESS_DENIES;
		return is_callers(s, rule->cfa & 15u) && rule->cfa_off > 0 ? WITNESS_DENIES : WITNESS_SILENT;
	}
	w = slot_load(s, value_moved(v, rule->cfa_off));
	if (w.kind == VALUE_CFA)
		return -(int64_t)w.off == rule->cfa_add ? WITNESS_CONFIRMS : WITNESS_DENIES;
	return WITNESS_SILENT;
}

/* Judges the part of a rule that concerns rbp. */
static enum witness bp_witness(const struct state *s, const struct etch_rule *rule)
{
	struct value at, v;

	switch (rule->bp) {
	case ETCH_BP_SAME:
		if (state_has_callers_rbp(s))
			return WITNESS_CONFIRMS;
		/* An address of this frame, or a constant, is not the caller's rbp. */
		return s->reg[RBP].kind == VALUE_ANY || s->reg[RBP].kind == VALUE_BELOW ? WITNESS_SILENT : WITNESS_DENIES;
	case ETCH_BP_CFA: at = value_of(VALUE_CFA, 0, rule->bp_off); break;
	case ETCH_BP_RBP: at = value_moved(s->reg[RBP], rule->bp_off); break;
	case ETCH_BP_RSP: at = value_moved(s->reg[RSP], rule->bp_off); break;
	default: return WITNESS_CONFIRMS; /* the rule claims nothing about rbp */
	}
	/* The caller's rbp does not point into this function's frame, so nothing saved in this frame can be found relative
	 * to it. gcc emits such a rule after the leave instruction of a function that realigns its stack. */
	if (rule->bp == ETCH_BP_RBP && state_has_callers_rbp(s))
		return WITNESS_DENIES;
	v = slot_load(s, at);
	if (v.kind == VALUE_ENTRY)
		return v.reg == RBP ? WITNESS_CONFIRMS : WITNESS_DENIES;
	return v.kind == VALUE_ANY ? WITNESS_SILENT : WITNESS_DENIES;
}

/* Judges the part of a rule that concerns the return address. `same_frame`: the rule's CFA is confirmed. */
static enum witness ra_witness(const struct state *s, const struct etch_rule *rule, bool same_frame)
{
	struct value v;

	if (rule->ra & ETCH_RA_REG)
		v = s->reg[rule->ra & 15u];
	else
		v = slot_load(s, value_of(VALUE_CFA, 0, rule->ra == ETCH_RA_SLOT ? rule->cfa_add : -8));
	if (value_is_entry(v, REG_RA))
		return WITNESS_CONFIRMS;
	/*
	 * The rule is denied if another value is at its place of the return address, or if the value there is unknown while
	 * the return address is known to be elsewhere. The latter counts only with the same CFA: after
	 * __builtin_eh_return() .eh_frame describes another frame.
	 */
	return s->slot_count < STATE_SLOTS && (v.kind != VALUE_ANY || (same_frame && ra_known(s))) ? WITNESS_DENIES
	                                                                                           : WITNESS_SILENT;
}

enum witness state_witness(const struct state *s, const struct etch_rule *rule)
{
	enum witness cfa, bp, ra;

	if (rule->kind != ETCH_RULE_CALL)
		return WITNESS_SILENT;
	cfa = cfa_witness(s, rule);
	bp = bp_witness(s, rule);
	ra = ra_witness(s, rule, cfa == WITNESS_CONFIRMS);
	if (cfa == WITNESS_DENIES || bp == WITNESS_DENIES || ra == WITNESS_DENIES)
		return WITNESS_DENIES;
	return cfa == WITNESS_CONFIRMS && bp == WITNESS_CONFIRMS && ra == WITNESS_CONFIRMS ? WITNESS_CONFIRMS
	                                                                                   : WITNESS_SILENT;
}

enum witness state_witness_own(const struct state *s, const struct etch_rule *rule)
{
	enum witness w;

	if (rule->kind != ETCH_RULE_CALL || (rule->cfa & (ETCH_CFA_DEREF | ETCH_CFA_INDEX)))
		return state_witness(s, rule);
	w = ra_witness(s, rule, true);
#ifdef ETCH_CHECK_STEPS
	if (w != state_witness(s, rule)) {
		fprintf(stderr, "state: its own rule is not what it bears witness of\n");
		abort();
	}
#endif
	return w;
}

/* ---- the callee-saved registers ---------------------------------------------------------- */

#define NOWHERE INT32_MIN /* there is no such slot */

static const uint8_t saved_registers[5] = {3, 12, 13, 14, 15}; /* rbx, r12 to r15, as in struct etch_cfi_saves */

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

/* Finds the caller's value of saved_registers[i] if it is neither in that register nor in a slot relative to the CFA.
 * In a realigned frame, it is in the slot with the highest address, if nothing else can have written to that slot. */
static __attribute__((noinline)) void aligned_save(const struct state *s, unsigned i, struct etch_cfi_saves *out)
{
	struct value sp = s->reg[RSP], bp = s->reg[RBP], base = bp.kind == VALUE_ALIGNED ? bp : sp;
	const struct slot *best = NULL;
	unsigned k;

	for (k = 0; k < s->slot_count; k++) {
		const struct slot *x = &s->slot[k];

		if (x->aligned && value_is_entry(x->value, saved_registers[i]) && (!best || x->at > best->at) &&
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
	/* Slots below this may have been overwritten by signal handlers, which write below the red zone. If the distance of
	 * rsp from the CFA is unknown, rsp is below all of the frame, so no slot is excluded. */
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
		unsigned r = saved_registers[i];

		if (off[i + 1] != NOWHERE) {
			out->how[i] = ETCH_SAVE_CFA;
			out->off[i] = off[i + 1];
			continue;
		}
		*depends |= 1u << r;
		if (value_is_entry(s->reg[r], r))
			continue; /* ETCH_SAVE_SAME */
		aligned_save(s, i, out);
		*depends |= 1u << RBP;
	}
	return off[6] == NOWHERE ? 0 : off[6];
}
