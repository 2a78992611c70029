/* SPDX-License-Identifier: MIT */
/* What a state proves: the rule that it makes, and what it has to say of another's. */
#include "code/state_parts.h"

#include <stdio.h>
#include <stdlib.h>

/* The slot that holds rbp of the caller. */
static const struct slot *rbp_slot(const struct state *s)
{
	const struct slot *best = NULL;
	unsigned i;

	for (i = 0; i < s->slot_count; i++) {
		const struct slot *x = &s->slot[i];

		if (x->value.kind != VALUE_ENTRY || x->value.reg != RBP)
			continue;
		/* Of two, the one nearer to the CFA: it was there first. */
		if (!best || (best->aligned && !x->aligned) || (best->aligned == x->aligned && x->at > best->at))
			best = x;
	}
	return best;
}

static bool rule_bp(const struct state *s, struct etch_rule *out)
{
	const struct slot *x = rbp_slot(s);

	/* Both the register and the slot may have it: the register, where it was loaded
	 * back, or popped, for what is below rsp may be written to. */
	if (s->reg[RBP].kind == VALUE_ENTRY && s->reg[RBP].reg == RBP &&
	    (s->reg[RBP].most || (x && !x->aligned && s->reg[RSP].kind == VALUE_CFA && x->at < s->reg[RSP].off))) {
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
	} else if (s->reg[RBP].kind == VALUE_ENTRY && s->reg[RBP].reg == RBP) {
		out->bp = ETCH_BP_SAME;
	} else {
		out->bp = ETCH_BP_UNDEF;
	}
	return out->bp != ETCH_BP_UNDEF;
}

/* CFA through a register; true when that is how. */
static bool rule_register(const struct state *s, unsigned r, struct etch_rule *out)
{
	if (s->reg[r].kind != VALUE_CFA || s->reg[r].off == INT32_MIN)
		return false;
	out->cfa = (uint8_t)r;
	out->cfa_off = -s->reg[r].off;
	return true;
}

/* CFA through a slot that a register points near to. */
static bool rule_slot(const struct state *s, unsigned r, struct etch_rule *out)
{
	unsigned i;

	if (!is_address(s->reg[r]))
		return false;
	for (i = 0; i < s->slot_count; i++) {
		const struct slot *x = &s->slot[i];

		if (x->value.kind != VALUE_CFA || x->aligned != (s->reg[r].kind == VALUE_ALIGNED))
			continue;
		out->cfa = (uint8_t)(r | ETCH_CFA_DEREF);
		out->cfa_off = x->at - s->reg[r].off;
		out->cfa_add = -x->value.off;
		return true;
	}
	return false;
}

/*
 * The frame pointer where there is a frame of its own (saved just below the
 * return address, as every compiler's push %rbp; mov %rsp,%rbp leaves it): that is
 * what .eh_frame uses there, and it stays right over alloca. Then rsp; then what
 * can be followed from a frame further in, where only rsp and rbp are known; then
 * any other register.
 */
void state_rule(const struct state *s, struct etch_rule *out)
{
	static const uint8_t others[] = {11, 10, 0, 1, 2, 3, 6, 7, 8, 9, 12, 13, 14, 15};
	const struct slot *x;
	unsigned i;

	memset(out, 0, sizeof(*out));
	x = s->reg[RBP].kind == VALUE_CFA && s->reg[RBP].off == -16 ? slot_at(s, value_of(VALUE_CFA, 0, -16)) : NULL;
	if (!(x && x->value.kind == VALUE_ENTRY && x->value.reg == RBP && rule_register(s, RBP, out)) &&
	    !rule_register(s, RSP, out) && !rule_register(s, RBP, out) && !rule_slot(s, RBP, out) &&
	    !rule_slot(s, RSP, out)) {
		for (i = 0; i < sizeof(others); i++)
			if (rule_register(s, others[i], out))
				break;
		if (i == sizeof(others))
			return;
	}
	out->kind = ETCH_RULE_CALL;
	rule_bp(s, out);
	x = slot_at(s, value_of(VALUE_CFA, 0, -8));
	if (x && s->reg[RSP].kind == VALUE_CFA && s->reg[RSP].off > -8)
		x = NULL; /* popped: better where it was popped to, as vfork() does */
	if (!x || x->value.kind != VALUE_ENTRY || x->value.reg != REG_RA) {
		/* The return address was taken off the stack, or written over. */
		for (i = 0; i < 16; i++)
			if (s->reg[i].kind == VALUE_ENTRY && s->reg[i].reg == REG_RA)
				break;
		if (i < 16)
			out->ra = (uint8_t)(ETCH_RA_REG | i);
		else if (!s->align && !slot_at(s, value_of(VALUE_CFA, 0, -8)))
			memset(out, 0, sizeof(*out));
	}
}

/* For builds that check what others take for granted (make asan). */
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
	    a->slot_count != b->slot_count || memcmp(a->slot, b->slot, a->slot_count * sizeof(a->slot[0])))
		return false;
	for (mask = (a->known | b->known) & ~frame; mask; mask &= mask - 1) {
		unsigned r = (unsigned)__builtin_ctz(mask);

		if (state_rules(a, r) || state_rules(b, r))
			return false;
	}
	same_check(a, b);
	return true;
}

static enum witness cfa_witness(const struct state *s, const struct etch_rule *rule)
{
	struct value v = s->reg[rule->cfa & 15u], w;

	if (rule->cfa & ETCH_CFA_INDEX)
		return WITNESS_SILENT; /* in an array of a length that is not known */
	if (!(rule->cfa & ETCH_CFA_DEREF)) {
		if (v.kind == VALUE_CFA)
			return -(int64_t)v.off == rule->cfa_off ? WITNESS_CONFIRMS : WITNESS_DENIES;
		return WITNESS_SILENT;
	}
	w = slot_load(s, value_moved(v, rule->cfa_off));
	if (w.kind == VALUE_CFA)
		return -(int64_t)w.off == rule->cfa_add ? WITNESS_CONFIRMS : WITNESS_DENIES;
	return WITNESS_SILENT;
}

static enum witness bp_witness(const struct state *s, const struct etch_rule *rule)
{
	struct value at, v;

	switch (rule->bp) {
	case ETCH_BP_SAME:
		if (s->reg[RBP].kind == VALUE_ENTRY && s->reg[RBP].reg == RBP)
			return WITNESS_CONFIRMS;
		/* An address of this frame, or a constant, is not the caller's rbp. */
		return s->reg[RBP].kind == VALUE_ANY || s->reg[RBP].kind == VALUE_BELOW ? WITNESS_SILENT : WITNESS_DENIES;
	case ETCH_BP_CFA:
		at = value_of(VALUE_CFA, 0, rule->bp_off);
		break;
	case ETCH_BP_RBP:
		at = value_moved(s->reg[RBP], rule->bp_off);
		break;
	case ETCH_BP_RSP:
		at = value_moved(s->reg[RSP], rule->bp_off);
		break;
	default:
		return WITNESS_CONFIRMS; /* claims nothing */
	}
	v = slot_load(s, at);
	if (v.kind == VALUE_ENTRY)
		return v.reg == RBP ? WITNESS_CONFIRMS : WITNESS_DENIES;
	return v.kind == VALUE_ANY ? WITNESS_SILENT : WITNESS_DENIES;
}

static enum witness ra_witness(const struct state *s, const struct etch_rule *rule)
{
	struct value v;

	if (rule->ra & ETCH_RA_REG) {
		v = s->reg[rule->ra & 15u];
		return v.kind == VALUE_ENTRY && v.reg == REG_RA ? WITNESS_CONFIRMS : WITNESS_SILENT;
	}
	v = slot_load(s, value_of(VALUE_CFA, 0, -8));
	return v.kind == VALUE_ENTRY && v.reg == REG_RA ? WITNESS_CONFIRMS
	       : s->slot_count < STATE_SLOTS && v.kind != VALUE_ANY ? WITNESS_DENIES : WITNESS_SILENT;
}

enum witness state_witness(const struct state *s, const struct etch_rule *rule)
{
	enum witness cfa, bp, ra;

	if (rule->kind != ETCH_RULE_CALL)
		return WITNESS_SILENT;
	cfa = cfa_witness(s, rule);
	bp = bp_witness(s, rule);
	ra = ra_witness(s, rule);
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
	w = ra_witness(s, rule);
#ifdef ETCH_CHECK_STEPS
	if (w != state_witness(s, rule)) {
		fprintf(stderr, "state: its own rule is not what it bears witness of\n");
		abort();
	}
#endif
	return w;
}
