/* SPDX-License-Identifier: MIT */
/*
 * shared/cfi_rule.h: the state of a call frame program (the rules of all registers at one address) and its conversion
 * to a rule of etch/orc.h. It is internal to etch: the tool and the library share it, it is no interface for
 * programs, and it may change at any time. C only. Signal and thread safety: as in shared/cfi.h.
 */
#ifndef ETCH_LIB_SHARED_CFI_RULE_H
#define ETCH_LIB_SHARED_CFI_RULE_H

#include "shared/cfi_entries.h"
#include "shared/cfi_expression.h"
#include <etch/orc.h>

/* Where the caller's value of a register is (etch_cfi_saves.how). */
enum etch_cfi_save_how {
	ETCH_SAVE_SAME = 0,  /* unchanged in the register */
	ETCH_SAVE_CFA = 1,   /* *(CFA + off) */
	ETCH_SAVE_RBP = 2,   /* *(rbp + off) */
	ETCH_SAVE_RSP = 3,   /* *(rsp + off) */
	ETCH_SAVE_OTHER = 4, /* unknown, or not expressible here */
};

/* Callee-saved registers except rbp: rbx, r12, r13, r14, r15. */
struct etch_cfi_saves {
	int32_t off[5];
	uint8_t how[5]; /* enum etch_cfi_save_how */
	uint8_t zero[3];
};

/* The ways in which a call frame program gives the CFA or the rule of a register. */
enum etch_cfi_how {
	ETCH_HOW_NONE, /* no rule given: callee-saved registers are unchanged, as with SAME */
	ETCH_HOW_SAME,
	ETCH_HOW_OFFSET,
	ETCH_HOW_VAL_OFFSET,
	ETCH_HOW_REGISTER,
	ETCH_HOW_EXPR,
	ETCH_HOW_VAL_EXPR,
	ETCH_HOW_UNDEF,
	ETCH_HOW_TOO_BIG, /* a number beyond 64 bits */
};

/* The rule of a register. */
struct etch_cfi_reg {
	uint8_t how;
	uint8_t reg; /* DWARF number; 255 = irrelevant here */
	uint32_t length;
	int64_t off; /* offset, or section offset of the expression */
};

enum {
	ETCH_COL_RBX,
	ETCH_COL_RBP,
	ETCH_COL_RSP,
	ETCH_COL_R12,
	ETCH_COL_R13,
	ETCH_COL_R14,
	ETCH_COL_R15,
	ETCH_COL_RA,
	ETCH_COL_OTHER,
	ETCH_COLS
};

/* The columns of the DWARF registers that a callee preserves (psABI, figure 3.36). Rules of other registers are
 * parsed and dropped. */
static inline unsigned etch_cfi_column(uint64_t reg)
{
	static const uint8_t column[17] = {
		ETCH_COL_OTHER, ETCH_COL_OTHER, ETCH_COL_OTHER, ETCH_COL_RBX,   ETCH_COL_OTHER, ETCH_COL_OTHER,
		ETCH_COL_RBP,   ETCH_COL_RSP,   ETCH_COL_OTHER, ETCH_COL_OTHER, ETCH_COL_OTHER, ETCH_COL_OTHER,
		ETCH_COL_R12,   ETCH_COL_R13,   ETCH_COL_R14,   ETCH_COL_R15,   ETCH_COL_RA,
	};

	return reg < 17 ? column[reg] : ETCH_COL_OTHER;
}

/* Converts a DWARF register number to the order of instruction encodings. */
static inline uint8_t etch_cfi_register(uint8_t dwarf)
{
	static const uint8_t order[8] = {0, 2, 1, 3, 6, 7, 5, 4};

	return dwarf < 8 ? order[dwarf] : dwarf;
}

/* As in libgcc, and against DWARF 5, 6.4.2.2, def_cfa_expression keeps cfa_reg and cfa_off, and a later
 * def_cfa_register uses that offset again; libgcrypt's assembly relies on it. */
struct etch_cfi_state {
	uint8_t cfa_how; /* NONE, OFFSET or EXPR */
	uint8_t cfa_reg;
	bool cfa_big; /* cfa_off went beyond 64 bits */
	int64_t cfa_off;
	struct etch_cfi_reg cfa_expr;
	struct etch_cfi_reg cols[ETCH_COLS];
};

static inline bool etch_cfi_i32(int64_t v) { return v == (int32_t)v; }

/* The offset of location t from the CFA; false if it is unknown. */
static inline bool etch_cfi_from_cfa(struct etch_cfi_term t, struct etch_cfi_term cfa, int64_t *off)
{
	if (t.kind == ETCH_TERM_REG && t.reg == ETCH_CFI_CFA) {
		*off = t.add;
		return true;
	}
	return t.kind == cfa.kind && t.reg == cfa.reg &&
	       (t.kind == ETCH_TERM_REG ||
	        ((t.kind == ETCH_TERM_DEREF || t.kind == ETCH_TERM_DEREF_INDEX) && t.off == cfa.off)) &&
	       !__builtin_sub_overflow(t.add, cfa.add, off);
}

static inline struct etch_cfi_term etch_cfi_location(const struct etch_cfi *c, const struct etch_cfi_reg *r)
{
	if (r->how == ETCH_HOW_EXPR)
		return etch_cfi_expression(c, (uint64_t)r->off, (uint64_t)r->off + r->length, true);
	if (r->how == ETCH_HOW_OFFSET)
		return (struct etch_cfi_term){ETCH_TERM_REG, ETCH_CFI_CFA, 0, 0, r->off};
	return (struct etch_cfi_term){ETCH_TERM_NONE, 0, 0, 0, 0};
}

/* Expresses a saved register in one of the forms of enum etch_rule_bp (enum etch_cfi_save_how has the same numbers).
 * False if it has none of them. */
static inline bool etch_cfi_saved(const struct etch_cfi *c, const struct etch_cfi_reg *r, struct etch_cfi_term cfa,
                                  uint8_t *how, int32_t *out)
{
	struct etch_cfi_term t;
	int64_t off;

	*how = ETCH_BP_UNDEF;
	*out = 0;
	if (r->how == ETCH_HOW_NONE || r->how == ETCH_HOW_SAME) {
		*how = ETCH_BP_SAME;
		return true;
	}
	if (r->how == ETCH_HOW_UNDEF)
		return true;
	if (r->how == ETCH_HOW_OFFSET && etch_cfi_i32(r->off)) { /* the same result as below, without a term */
		*how = ETCH_BP_CFA;
		*out = (int32_t)r->off;
		return true;
	}
	t = etch_cfi_location(c, r);
	if (etch_cfi_from_cfa(t, cfa, &off)) {
		if (!etch_cfi_i32(off))
			return false;
		*how = ETCH_BP_CFA;
	} else {
		off = t.add;
		if (t.kind != ETCH_TERM_REG || (t.reg != 6 && t.reg != 7) || !etch_cfi_i32(off))
			return false;
		*how = t.reg == 6 ? ETCH_BP_RBP : ETCH_BP_RSP;
	}
	*out = (int32_t)off;
	return true;
}

static inline bool etch_cfi_is_slot(const struct etch_cfi *c, const struct etch_cfi_reg *r, uint8_t reg, int64_t off)
{
	struct etch_cfi_term t = etch_cfi_location(c, r);

	return t.kind == ETCH_TERM_REG && t.reg == reg && t.add == off;
}

/* The offset of the return address from the CFA (-8 if it is where a call has pushed it). False if it is unknown. */
static inline bool etch_cfi_ra(const struct etch_cfi *c, const struct etch_cfi_reg *ra, struct etch_cfi_term cfa,
                               int64_t *off)
{
	return etch_cfi_from_cfa(etch_cfi_location(c, ra), cfa, off);
}

/* Is the return address still where a call has pushed it? */
static inline bool etch_cfi_is_pushed(const struct etch_cfi *c, const struct etch_cfi_reg *ra, struct etch_cfi_term cfa)
{
	int64_t off = 0;

	return etch_cfi_ra(c, ra, cfa, &off) && off == -8;
}

/* Finds the CFA of a state. Returns null, or why no rule can express it. */
static inline const char *etch_cfi_rule_cfa(const struct etch_cfi *c, const struct etch_cfi_state *s,
                                            struct etch_cfi_term *cfa)
{
	if (s->cfa_how == ETCH_HOW_NONE)
		return "no rule for the CFA";
	if (s->cfa_how == ETCH_HOW_EXPR) {
		uint64_t at = (uint64_t)s->cfa_expr.off;

		*cfa = etch_cfi_expression(c, at, at + s->cfa_expr.length, false);
	} else if (s->cfa_big) {
		return "a CFA offset beyond 32 bits";
	} else {
		*cfa = (struct etch_cfi_term){ETCH_TERM_REG, s->cfa_reg, 0, 0, s->cfa_off};
	}
	if (cfa->kind != ETCH_TERM_REG && cfa->kind != ETCH_TERM_DEREF && cfa->kind != ETCH_TERM_DEREF_INDEX &&
	    cfa->kind != ETCH_TERM_REG_STEP)
		return "a CFA expression of unknown form";
	if (cfa->reg >= ETCH_CFI_RIP)
		return "a CFA not relative to a general register";
	if (!etch_cfi_i32(cfa->off) || !etch_cfi_i32(cfa->add) ||
	    (cfa->kind == ETCH_TERM_REG_STEP && !etch_cfi_i32(cfa->off + cfa->add)))
		return "a CFA offset beyond 32 bits";
	return NULL;
}

/* Finds the rule of a signal frame: struct sigcontext has rbp at 80, rsp at 120, rip at 128 (asm/sigcontext.h). */
static inline const char *etch_cfi_rule_signal(const struct etch_cfi *c, const struct etch_cfi_state *s,
                                               struct etch_cfi_term cfa, struct etch_rule *rule)
{
	const struct etch_cfi_reg *ra = &s->cols[ETCH_COL_RA], *sp = &s->cols[ETCH_COL_RSP];

	if (cfa.kind != ETCH_TERM_DEREF || cfa.reg != 7 || cfa.add || !etch_cfi_is_slot(c, ra, 7, cfa.off + 8) ||
	    !etch_cfi_is_slot(c, &s->cols[ETCH_COL_RBP], 7, cfa.off - 40) ||
	    !(sp->how == ETCH_HOW_NONE || etch_cfi_is_slot(c, sp, 7, cfa.off)))
		return "a signal frame of unknown form";
	rule->kind = ETCH_RULE_SIGNAL;
	rule->cfa |= ETCH_CFA_DEREF;
	rule->cfa_off = (int32_t)cfa.off;
	return NULL;
}

/* Fills in the zeroed rule of the usual state: the CFA is rsp or rbp plus an offset, and the return address is where
 * a call has pushed it. False for any other state. */
static inline bool etch_cfi_rule_usual(const struct etch_cfi_state *s, struct etch_rule *rule)
{
	const struct etch_cfi_reg *ra = &s->cols[ETCH_COL_RA];

	if (s->cfa_how != ETCH_HOW_OFFSET || s->cfa_big || (s->cfa_reg != 6 && s->cfa_reg != 7) ||
	    !etch_cfi_i32(s->cfa_off) || ra->how != ETCH_HOW_OFFSET || ra->off != -8 ||
	    s->cols[ETCH_COL_RSP].how != ETCH_HOW_NONE)
		return false;
	rule->kind = ETCH_RULE_CALL;
	rule->cfa = etch_cfi_register(s->cfa_reg);
	rule->cfa_off = (int32_t)s->cfa_off;
	return true;
}

/* Fills in a rule with the CFA, whose base it has, and with the place of a return address that is at an offset from the
 * CFA. */
static inline void etch_cfi_rule_place(struct etch_cfi_term cfa, int64_t ra_off, struct etch_rule *rule,
                                       struct etch_cfi_term *step)
{
	if (cfa.kind == ETCH_TERM_DEREF || cfa.kind == ETCH_TERM_DEREF_INDEX) {
		rule->cfa |= cfa.kind == ETCH_TERM_DEREF ? ETCH_CFA_DEREF : ETCH_CFA_DEREF | ETCH_CFA_INDEX;
		rule->cfa_off = (int32_t)cfa.off;
		rule->cfa_add = (int32_t)cfa.add;
	} else {
		rule->cfa_off = (int32_t)cfa.add;
		if (cfa.kind == ETCH_TERM_REG_STEP)
			*step = cfa;
		if (ra_off != -8) {
			rule->ra = ETCH_RA_SLOT;
			rule->cfa_add = (int32_t)ra_off;
		}
	}
}

/* Converts a state as etch_cfi_rule() does, except that on an early return the rule has fields set although its kind is
 * still UNDEF. */
static inline const char *etch_cfi_rule_try(const struct etch_fde *fde, const struct etch_cfi_state *s,
                                            struct etch_rule *rule, struct etch_cfi_term *step,
                                            struct etch_cfi_saves *saves)
{
	static const uint8_t saved[5] = {ETCH_COL_RBX, ETCH_COL_R12, ETCH_COL_R13, ETCH_COL_R14, ETCH_COL_R15};
	const struct etch_cfi *c = fde->cfi;
	const struct etch_cfi_reg *ra = &s->cols[ETCH_COL_RA], *sp = &s->cols[ETCH_COL_RSP];
	struct etch_cfi_term cfa = {ETCH_TERM_NONE, 0, 0, 0, 0};
	int64_t ra_off = -8;
	const char *why;
	unsigned i;

	if (etch_cfi_rule_usual(s, rule)) {
		cfa = (struct etch_cfi_term){ETCH_TERM_REG, s->cfa_reg, 0, 0, s->cfa_off};
		goto saved;
	}
	why = etch_cfi_rule_cfa(c, s, &cfa);
	if (why)
		return why;
	rule->cfa = etch_cfi_register(cfa.reg);
	/* For gdb's sake, augmentation 'S' also marks ordinary, called frames on stacks that do not ascend (OCaml 5.2).
	 * These have a pushed return address, and the condition excludes them. */
	if (fde->cie.signal && ra->how != ETCH_HOW_UNDEF && !etch_cfi_is_pushed(c, ra, cfa))
		return etch_cfi_rule_signal(c, s, cfa, rule);
	if (sp->how != ETCH_HOW_NONE && !(sp->how == ETCH_HOW_VAL_OFFSET && !sp->off))
		return "an rsp that is not the CFA";
	if (ra->how == ETCH_HOW_REGISTER && ra->reg < 16) {
		rule->ra = (uint8_t)(ETCH_RA_REG | etch_cfi_register(ra->reg));
	} else if (ra->how != ETCH_HOW_UNDEF && (!etch_cfi_ra(c, ra, cfa, &ra_off) || !etch_cfi_i32(ra_off) ||
	                                         (ra_off != -8 && cfa.kind != ETCH_TERM_REG))) {
		return ra->how == ETCH_HOW_NONE ? "no rule for the return address" : "a return address in an unusual place";
	}
	rule->kind = ra->how == ETCH_HOW_UNDEF ? ETCH_RULE_END : ETCH_RULE_CALL;
	etch_cfi_rule_place(cfa, ra_off, rule, step);
saved:
	for (i = 0; saves && i < 5; i++)
		etch_cfi_saved(c, &s->cols[saved[i]], cfa, &saves->how[i], &saves->off[i]);
	if (!etch_cfi_saved(c, &s->cols[ETCH_COL_RBP], cfa, &rule->bp, &rule->bp_off))
		return "an rbp in an unusual place";
	return NULL;
}

/*
 * Converts a state to a rule. Returns null, or why the rule is weaker than the state. If the CFA depends on rip, it
 * is returned in *step, and the rule has its lower value.
 */
static inline const char *etch_cfi_rule(const struct etch_fde *fde, const struct etch_cfi_state *s,
                                        struct etch_rule *rule, struct etch_cfi_term *step,
                                        struct etch_cfi_saves *saves)
{
	const char *why;

	memset(rule, 0, sizeof(*rule));
	step->kind = ETCH_TERM_NONE;
	why = etch_cfi_rule_try(fde, s, rule, step, saves);
	if (rule->kind != ETCH_RULE_UNDEF)
		return why;
	memset(rule, 0, sizeof(*rule));
	if (s->cols[ETCH_COL_RA].how != ETCH_HOW_UNDEF)
		return why;
	rule->kind = ETCH_RULE_END; /* whatever the CFA is */
	return NULL;
}

#endif
