/* SPDX-License-Identifier: MIT */
/*
 * etch/cfi.h: .eh_frame as rows of etch/orc.h. Internal to etch: shared by its
 * tool and its library, no interface for programs, may change at any time. C only.
 *
 * Sections and numbers: DWARF 5, 6.4 (call frame information) and 2.5
 * (expressions); Linux Standard Base, "Exception Frames" (the .eh_frame form,
 * augmentations); gcc/dwarf2.h and unwind-pe.h (DW_EH_PE, GNU opcodes).
 *
 * Every byte is checked before it is read. No allocation, no libc but memcpy
 * and memcmp, no global state: async-signal-safe, and thread-safe as long as a
 * struct etch_cfi stays with one thread. etch_cfi_rows() takes 12 KiB of stack, or
 * less with another ETCH_CFI_DEPTH.
 */
#ifndef ETCH_CFI_H
#define ETCH_CFI_H

#include <etch/cfi_entries.h>
#include <etch/cfi_expression.h>
#include <etch/orc.h>

enum etch_cfi_save_how {
	ETCH_SAVE_SAME = 0,  /* the register has it still */
	ETCH_SAVE_CFA = 1,   /* *(CFA + off) */
	ETCH_SAVE_RBP = 2,   /* *(rbp + off) */
	ETCH_SAVE_RSP = 3,   /* *(rsp + off) */
	ETCH_SAVE_OTHER = 4, /* lost, or nothing that this struct can say */
};

/* Callee-saved registers but rbp: rbx, r12, r13, r14, r15. */
struct etch_cfi_saves {
	int32_t off[5];
	uint8_t how[5]; /* enum etch_cfi_save_how */
	uint8_t zero[3];
};

struct etch_cfi_row {
	uint64_t start, end;
	struct etch_rule rule;
	/* Null, or why the rule is less than .eh_frame says: kind UNDEF, or only
	 * bp UNDEF where nothing else is the matter. One of a few constant strings. */
	const char *why;
	struct etch_cfi_saves saves; /* with ETCH_CFI_SAVES, else zero */
};

#define ETCH_CFI_SAVES 1u /* fill in `saves`; rows then also end where these change */

typedef void etch_cfi_row_fn(void *ctx, const struct etch_cfi_row *row);

/*
 * Runs an FDE's program: fn is called with its rows in order of address, without
 * gap, from start to end; neighbours differ. Where the program is malformed, the
 * rest of the range is one row UNDEF. A glibc __restore_rt FDE starts one byte
 * before the function, and so does its row.
 */
static inline void etch_cfi_rows(const struct etch_fde *fde, unsigned flags, etch_cfi_row_fn *fn, void *ctx);

/* ---- programs --------------------------------------------------------------- */

enum etch_cfi_how {
	ETCH_HOW_NONE, /* nothing said: for callee-saved registers as SAME */
	ETCH_HOW_SAME,
	ETCH_HOW_OFFSET,
	ETCH_HOW_VAL_OFFSET,
	ETCH_HOW_REGISTER,
	ETCH_HOW_EXPR,
	ETCH_HOW_VAL_EXPR,
	ETCH_HOW_UNDEF,
	ETCH_HOW_TOO_BIG, /* a number beyond 64 bits */
};

/* Rule of a register. */
struct etch_cfi_reg {
	uint8_t how;
	uint8_t reg;  /* DWARF number; 255 = none that matters */
	uint32_t length;
	int64_t off;  /* or offset of the expression */
};

enum { ETCH_COL_RBX, ETCH_COL_RBP, ETCH_COL_RSP, ETCH_COL_R12, ETCH_COL_R13, ETCH_COL_R14, ETCH_COL_R15, ETCH_COL_RA,
       ETCH_COL_OTHER, ETCH_COLS };

/* Columns of the DWARF registers that a callee keeps (psABI, figure 3.36). The
 * others' rules are read and not kept. */
static inline unsigned etch_cfi_column(uint64_t reg)
{
	static const uint8_t column[17] = {
		ETCH_COL_OTHER, ETCH_COL_OTHER, ETCH_COL_OTHER, ETCH_COL_RBX, ETCH_COL_OTHER, ETCH_COL_OTHER, ETCH_COL_RBP,
		ETCH_COL_RSP, ETCH_COL_OTHER, ETCH_COL_OTHER, ETCH_COL_OTHER, ETCH_COL_OTHER, ETCH_COL_R12, ETCH_COL_R13,
		ETCH_COL_R14, ETCH_COL_R15, ETCH_COL_RA,
	};

	return reg < 17 ? column[reg] : ETCH_COL_OTHER;
}

/* DWARF's register numbers in the order of instruction encodings. */
static inline uint8_t etch_cfi_register(uint8_t dwarf)
{
	static const uint8_t order[8] = {0, 2, 1, 3, 6, 7, 5, 4};

	return dwarf < 8 ? order[dwarf] : dwarf;
}

/* As in libgcc, an expression leaves register and offset as they were, and
 * def_cfa_register takes that offset up again: libgcrypt's assembly relies on it,
 * against 6.4.2.2. */
struct etch_cfi_state {
	uint8_t cfa_how; /* NONE, OFFSET or EXPR */
	uint8_t cfa_reg;
	bool cfa_big;    /* cfa_off went beyond 64 bits */
	int64_t cfa_off;
	struct etch_cfi_reg cfa_expr;
	struct etch_cfi_reg cols[ETCH_COLS];
};

static inline bool etch_cfi_i32(int64_t v)
{
	return v == (int32_t)v;
}

/* Where *term + off is relative to the CFA; false when nothing is known. */
static inline bool etch_cfi_from_cfa(struct etch_cfi_term t, struct etch_cfi_term cfa, int64_t *off)
{
	if (t.kind == ETCH_TERM_REG && t.reg == ETCH_CFI_CFA) {
		*off = t.add;
		return true;
	}
	return t.kind == cfa.kind && t.reg == cfa.reg && (t.kind == ETCH_TERM_REG ||
	       ((t.kind == ETCH_TERM_DEREF || t.kind == ETCH_TERM_DEREF_INDEX) && t.off == cfa.off)) && !__builtin_sub_overflow(t.add, cfa.add, off);
}

static inline struct etch_cfi_term etch_cfi_location(const struct etch_cfi *c, const struct etch_cfi_reg *r)
{
	if (r->how == ETCH_HOW_EXPR)
		return etch_cfi_expression(c, (uint64_t)r->off, (uint64_t)r->off + r->length, true);
	if (r->how == ETCH_HOW_OFFSET)
		return (struct etch_cfi_term){ETCH_TERM_REG, ETCH_CFI_CFA, 0, 0, r->off};
	return (struct etch_cfi_term){ETCH_TERM_NONE, 0, 0, 0, 0};
}

/* A saved register as one of the forms of enum etch_rule_bp (the numbers of enum
 * etch_cfi_save_how are the same); false when it is none of them. */
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

/* Is the return address where a call has pushed it? */
static inline bool etch_cfi_is_pushed(const struct etch_cfi *c, const struct etch_cfi_reg *ra, struct etch_cfi_term cfa)
{
	int64_t off = 0;

	return etch_cfi_from_cfa(etch_cfi_location(c, ra), cfa, &off) && off == -8;
}

/* etch_cfi_rule() but for the rule's kind, which stays UNDEF on the way out early. */
static inline const char *etch_cfi_rule_try(const struct etch_fde *fde, const struct etch_cfi_state *s,
                                            struct etch_rule *rule, struct etch_cfi_term *step,
                                            struct etch_cfi_saves *saves)
{
	static const uint8_t saved[5] = {ETCH_COL_RBX, ETCH_COL_R12, ETCH_COL_R13, ETCH_COL_R14, ETCH_COL_R15};
	const struct etch_cfi *c = fde->cfi;
	const struct etch_cfi_reg *ra = &s->cols[ETCH_COL_RA], *sp = &s->cols[ETCH_COL_RSP];
	struct etch_cfi_term cfa = {ETCH_TERM_NONE, 0, 0, 0, 0};
	unsigned i;

	if (s->cfa_how == ETCH_HOW_NONE)
		return "no rule for the CFA";
	if (s->cfa_how == ETCH_HOW_EXPR) {
		uint64_t at = (uint64_t)s->cfa_expr.off;

		cfa = etch_cfi_expression(c, at, at + s->cfa_expr.length, false);
	} else if (s->cfa_big) {
		return "a CFA offset beyond 32 bits";
	} else {
		cfa = (struct etch_cfi_term){ETCH_TERM_REG, s->cfa_reg, 0, 0, s->cfa_off};
	}
	if (cfa.kind != ETCH_TERM_REG && cfa.kind != ETCH_TERM_DEREF && cfa.kind != ETCH_TERM_DEREF_INDEX &&
	    cfa.kind != ETCH_TERM_REG_STEP)
		return "a CFA expression of unknown form";
	if (cfa.reg >= ETCH_CFI_RIP)
		return "a CFA relative to no general register";
	if (!etch_cfi_i32(cfa.off) || !etch_cfi_i32(cfa.add) ||
	    (cfa.kind == ETCH_TERM_REG_STEP && !etch_cfi_i32(cfa.off + cfa.add)))
		return "a CFA offset beyond 32 bits";
	rule->cfa = etch_cfi_register(cfa.reg);
	/* Frames on stacks that are not in order are marked so, too, for gdb's sake (OCaml 5.2): ordinary ones, which were called. */
	if (fde->cie.signal && ra->how != ETCH_HOW_UNDEF && !etch_cfi_is_pushed(c, ra, cfa)) {
		/* struct sigcontext: rbp at 80, rsp at 120, rip at 128 (asm/sigcontext.h) */
		if (cfa.kind != ETCH_TERM_DEREF || cfa.reg != 7 || cfa.add || !etch_cfi_is_slot(c, ra, 7, cfa.off + 8) ||
		    !etch_cfi_is_slot(c, &s->cols[ETCH_COL_RBP], 7, cfa.off - 40) ||
		    !(sp->how == ETCH_HOW_NONE || etch_cfi_is_slot(c, sp, 7, cfa.off)))
			return "a signal frame of unknown form";
		rule->kind = ETCH_RULE_SIGNAL;
		rule->cfa |= ETCH_CFA_DEREF;
		rule->cfa_off = (int32_t)cfa.off;
		return NULL;
	}
	if (sp->how != ETCH_HOW_NONE && !(sp->how == ETCH_HOW_VAL_OFFSET && !sp->off))
		return "an rsp that is not the CFA";
	if (ra->how == ETCH_HOW_REGISTER && ra->reg < 16) {
		rule->ra = (uint8_t)(ETCH_RA_REG | etch_cfi_register(ra->reg));
	} else if (ra->how != ETCH_HOW_UNDEF && !etch_cfi_is_pushed(c, ra, cfa)) {
		return ra->how == ETCH_HOW_NONE ? "no rule for the return address" : "a return address in an unusual place";
	}
	rule->kind = ra->how == ETCH_HOW_UNDEF ? ETCH_RULE_END : ETCH_RULE_CALL;
	if (cfa.kind == ETCH_TERM_DEREF || cfa.kind == ETCH_TERM_DEREF_INDEX) {
		rule->cfa |= cfa.kind == ETCH_TERM_DEREF ? ETCH_CFA_DEREF : ETCH_CFA_DEREF | ETCH_CFA_INDEX;
		rule->cfa_off = (int32_t)cfa.off;
		rule->cfa_add = (int32_t)cfa.add;
	} else {
		rule->cfa_off = (int32_t)cfa.add;
		if (cfa.kind == ETCH_TERM_REG_STEP)
			*step = cfa;
	}
	for (i = 0; saves && i < 5; i++)
		etch_cfi_saved(c, &s->cols[saved[i]], cfa, &saves->how[i], &saves->off[i]);
	if (!etch_cfi_saved(c, &s->cols[ETCH_COL_RBP], cfa, &rule->bp, &rule->bp_off))
		return "an rbp in an unusual place";
	return NULL;
}

/*
 * The rule of a state, and null or why it says less. A CFA that depends on rip
 * comes back in *step with its lower value in the rule.
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
	rule->kind = ETCH_RULE_END; /* whatever the CFA may be */
	return NULL;
}

/* States that a program may remember at a time; compilers need one or two. */
#ifndef ETCH_CFI_DEPTH
#define ETCH_CFI_DEPTH 64
#endif

struct etch_cfi_run {
	const struct etch_fde *fde;
	etch_cfi_row_fn *fn;
	void *ctx;
	unsigned flags;
	struct etch_cfi_row row; /* held back: the next one may continue it */
	struct etch_cfi_state state, initial;
	struct etch_cfi_state stack[ETCH_CFI_DEPTH];
	unsigned depth;
	uint64_t at;             /* location of the program */
	bool in_cie, changed;
	struct etch_rule rule;   /* of state, while !changed */
	struct etch_cfi_term step;
	struct etch_cfi_saves saves;
	const char *why;
};

static inline void etch_cfi_emit(struct etch_cfi_run *run, uint64_t start, uint64_t end, const struct etch_rule *rule)
{
	struct etch_cfi_row *row = &run->row;

	if (row->end == start && row->start != row->end && row->why == run->why &&
	    !memcmp(&row->rule, rule, sizeof(*rule)) && !memcmp(&row->saves, &run->saves, sizeof(row->saves))) {
		row->end = end;
		return;
	}
	if (row->start != row->end)
		run->fn(run->ctx, row);
	row->start = start;
	row->end = end;
	row->rule = *rule;
	row->why = run->why;
	row->saves = run->saves;
}

/* The state holds from run->at to `end`. */
static inline void etch_cfi_hold(struct etch_cfi_run *run, uint64_t end)
{
	uint64_t at = run->at;

	if (end > run->fde->end)
		end = run->fde->end;
	if (at >= end)
		return;
	run->at = end;
	if (run->changed) {
		memset(&run->saves, 0, sizeof(run->saves));
		run->why = etch_cfi_rule(run->fde, &run->state, &run->rule, &run->step,
		                         run->flags & ETCH_CFI_SAVES ? &run->saves : NULL);
		run->changed = false;
		/* A PLT has 16 bytes an entry and two rows each: one of more than 16
		 * million entries is none. */
		if (run->step.kind && end - at > (uint64_t)1 << 28) {
			memset(&run->rule, 0, sizeof(run->rule));
			memset(&run->saves, 0, sizeof(run->saves));
			run->step.kind = ETCH_TERM_NONE;
			run->why = "a CFA expression of unknown form";
		}
	}
	if (!run->step.kind) {
		etch_cfi_emit(run, at, end, &run->rule);
		return;
	}
	while (at < end) {
		struct etch_rule rule = run->rule;
		uint64_t low = at & 15, next = at - low + 16;

		if (low < run->step.step)
			next = at - low + run->step.step;
		else
			rule.cfa_off += (int32_t)run->step.off;
		if (next > end)
			next = end;
		etch_cfi_emit(run, at, next, &rule);
		at = next;
	}
}

static inline void etch_cfi_advance(struct etch_cfi_run *run, uint64_t delta)
{
	uint64_t by, to;

	if (run->in_cie) /* there is no location yet */
		return;
	if (__builtin_mul_overflow(delta, run->fde->cie.code_align, &by) || __builtin_add_overflow(run->at, by, &to))
		to = UINT64_MAX;
	etch_cfi_hold(run, to);
}

static inline void etch_cfi_set(struct etch_cfi_run *run, uint64_t reg, uint8_t how, int64_t factor, bool scaled)
{
	struct etch_cfi_reg *r = &run->state.cols[etch_cfi_column(reg)];

	*r = (struct etch_cfi_reg){how, 0, 0, factor};
	if (scaled && __builtin_mul_overflow(factor, run->fde->cie.data_align, &r->off))
		r->how = ETCH_HOW_TOO_BIG;
	run->changed = true;
}

static inline void etch_cfi_set_cfa(struct etch_cfi_run *run, int64_t off, bool scaled)
{
	struct etch_cfi_state *s = &run->state;

	s->cfa_big = scaled && __builtin_mul_overflow(off, run->fde->cie.data_align, &off);
	s->cfa_off = off;
	run->changed = true;
}

static inline void etch_cfi_set_cfa_reg(struct etch_cfi_run *run, uint64_t reg)
{
	run->state.cfa_how = ETCH_HOW_OFFSET;
	run->state.cfa_reg = (uint8_t)(reg < 255 ? reg : 255);
	run->changed = true;
}

/* An unsigned number as an offset; beyond 63 bits it is malformed. */
static inline int64_t etch_cfi_offset(struct etch_cfi_in *in)
{
	uint64_t v = etch_cfi_uleb(in);

	if (v > INT64_MAX)
		in->bad = true;
	return (int64_t)v;
}

static inline bool etch_cfi_block(struct etch_cfi_in *in, struct etch_cfi_reg *r)
{
	uint64_t length = etch_cfi_uleb(in);

	if (in->bad || length > in->end - in->at || length > UINT32_MAX)
		return false;
	r->length = (uint32_t)length;
	r->off = (int64_t)in->at;
	in->at += length;
	return true;
}

/* Runs the instructions at [at, end); false where they are malformed. */
static inline bool etch_cfi_program(struct etch_cfi_run *run, uint64_t at, uint64_t end)
{
	struct etch_cfi_in in = {run->fde->cfi, at, end, false};
	struct etch_cfi_state *s = &run->state;
	uint64_t reg, to;
	int64_t off;

	while (in.at < in.end && !in.bad && (run->in_cie || run->at < run->fde->end)) {
		uint8_t op = in.cfi->bytes[in.at++];

		switch (op >> 6) {
		case 1: /* advance_loc */
			etch_cfi_advance(run, op & 0x3f);
			continue;
		case 2: /* offset */
			off = etch_cfi_offset(&in);
			etch_cfi_set(run, op & 0x3f, ETCH_HOW_OFFSET, off, true);
			continue;
		case 3: /* restore */
			s->cols[etch_cfi_column(op & 0x3f)] = run->initial.cols[etch_cfi_column(op & 0x3f)];
			run->changed = true;
			continue;
		}
		switch (op) {
		case 0x00: /* nop */
			break;
		case 0x01: /* set_loc */
			to = etch_cfi_pointer(&in, run->fde->cie.fde_encoding, run->fde->start);
			if (in.bad || run->in_cie || to < run->at)
				return false;
			etch_cfi_hold(run, to);
			break;
		case 0x02: etch_cfi_advance(run, etch_cfi_u(&in, 1)); break;
		case 0x03: etch_cfi_advance(run, etch_cfi_u(&in, 2)); break;
		case 0x04: etch_cfi_advance(run, etch_cfi_u(&in, 4)); break;
		case 0x1d: etch_cfi_advance(run, etch_cfi_u(&in, 8)); break; /* MIPS_advance_loc8, as gas has it */
		case 0x05: /* offset_extended */
			reg = etch_cfi_uleb(&in);
			off = etch_cfi_offset(&in);
			etch_cfi_set(run, reg, ETCH_HOW_OFFSET, off, true);
			break;
		case 0x06: /* restore_extended */
			reg = etch_cfi_uleb(&in);
			s->cols[etch_cfi_column(reg)] = run->initial.cols[etch_cfi_column(reg)];
			run->changed = true;
			break;
		case 0x07: etch_cfi_set(run, etch_cfi_uleb(&in), ETCH_HOW_UNDEF, 0, false); break;
		case 0x08: etch_cfi_set(run, etch_cfi_uleb(&in), ETCH_HOW_SAME, 0, false); break;
		case 0x09: /* register */
			reg = etch_cfi_uleb(&in);
			to = etch_cfi_uleb(&in);
			etch_cfi_set(run, reg, ETCH_HOW_REGISTER, 0, false);
			s->cols[etch_cfi_column(reg)].reg = (uint8_t)(to < 255 ? to : 255);
			break;
		case 0x0a: /* remember_state */
			if (run->depth == sizeof(run->stack) / sizeof(run->stack[0]))
				return false;
			run->stack[run->depth++] = *s;
			break;
		case 0x0b: /* restore_state */
			if (!run->depth)
				return false;
			*s = run->stack[--run->depth];
			run->changed = true;
			break;
		case 0x0c: /* def_cfa */
		case 0x12: /* def_cfa_sf */
			etch_cfi_set_cfa_reg(run, etch_cfi_uleb(&in));
			off = op == 0x0c ? etch_cfi_offset(&in) : etch_cfi_sleb(&in);
			etch_cfi_set_cfa(run, off, op == 0x12);
			break;
		case 0x0d: /* def_cfa_register */
			etch_cfi_set_cfa_reg(run, etch_cfi_uleb(&in));
			break;
		case 0x0e: /* def_cfa_offset */
		case 0x13: /* def_cfa_offset_sf */
			off = op == 0x0e ? etch_cfi_offset(&in) : etch_cfi_sleb(&in);
			etch_cfi_set_cfa(run, off, op == 0x13);
			break;
		case 0x0f: /* def_cfa_expression */
			s->cfa_how = ETCH_HOW_EXPR;
			run->changed = true;
			if (!etch_cfi_block(&in, &s->cfa_expr))
				return false;
			break;
		case 0x10: /* expression */
		case 0x16: /* val_expression */
			reg = etch_cfi_uleb(&in);
			etch_cfi_set(run, reg, op == 0x10 ? ETCH_HOW_EXPR : ETCH_HOW_VAL_EXPR, 0, false);
			if (!etch_cfi_block(&in, &s->cols[etch_cfi_column(reg)]))
				return false;
			break;
		case 0x11: /* offset_extended_sf */
		case 0x15: /* val_offset_sf */
			reg = etch_cfi_uleb(&in);
			off = etch_cfi_sleb(&in);
			etch_cfi_set(run, reg, op == 0x11 ? ETCH_HOW_OFFSET : ETCH_HOW_VAL_OFFSET, off, true);
			break;
		case 0x14: /* val_offset */
			reg = etch_cfi_uleb(&in);
			off = etch_cfi_offset(&in);
			etch_cfi_set(run, reg, ETCH_HOW_VAL_OFFSET, off, true);
			break;
		case 0x2d: /* GNU_window_save: of SPARC */
			break;
		case 0x2e: /* GNU_args_size */
			etch_cfi_uleb(&in);
			break;
		case 0x2f: /* GNU_negative_offset_extended */
			reg = etch_cfi_uleb(&in);
			off = etch_cfi_offset(&in);
			etch_cfi_set(run, reg, ETCH_HOW_OFFSET, -off, true);
			break;
		default:
			return false;
		}
	}
	return !in.bad;
}

static inline void etch_cfi_rows(const struct etch_fde *fde, unsigned flags, etch_cfi_row_fn *fn, void *ctx)
{
	struct etch_cfi_run run;
	bool good;

	run.fde = fde;
	run.fn = fn;
	run.ctx = ctx;
	run.flags = flags;
	memset(&run.row, 0, sizeof(run.row));
	memset(&run.state, 0, sizeof(run.state));
	run.depth = 0;
	run.at = fde->start;
	run.in_cie = true;
	run.changed = true;
	good = etch_cfi_program(&run, fde->cie.program, fde->cie.program_end);
	run.initial = run.state;
	run.in_cie = false;
	good = good && etch_cfi_program(&run, fde->program, fde->program_end);
	if (!good) {
		memset(&run.rule, 0, sizeof(run.rule));
		memset(&run.saves, 0, sizeof(run.saves));
		run.why = "malformed call frame instructions";
		run.step.kind = ETCH_TERM_NONE;
		run.changed = false;
	}
	etch_cfi_hold(&run, fde->end);
	if (run.row.start != run.row.end)
		fn(ctx, &run.row);
}


#endif
