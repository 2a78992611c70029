/* SPDX-License-Identifier: MIT */
/*
 * shared/cfi_expression.h: symbolic evaluation of the DWARF expressions in call frame information. It is internal to
 * etch: the tool and the library share it, it is no interface for programs, and it may change at any time. C only.
 * Signal and thread safety: as in shared/cfi.h.
 *
 * DWARF 5, 2.5. The few expressions that compilers and linkers write are: sums of a register and constants, with at
 * most one load; the linker's expression for PLTs, which tests the low bits of rip; and OpenSSL's for an array on the
 * stack. Symbolic evaluation recognizes every spelling of these.
 */
#ifndef ETCH_LIB_SHARED_CFI_EXPRESSION_H
#define ETCH_LIB_SHARED_CFI_EXPRESSION_H

#include "shared/cfi_entries.h"

enum etch_cfi_term_kind {
	ETCH_TERM_NONE,
	ETCH_TERM_CONST,       /* add */
	ETCH_TERM_REG,         /* reg + add */
	ETCH_TERM_DEREF,       /* *(reg + off) + add */
	ETCH_TERM_REG_8,       /* 8 * reg + add */
	ETCH_TERM_INDEX,       /* rsp + 8 * reg + add */
	ETCH_TERM_DEREF_INDEX, /* *(rsp + 8 * reg + off) + add */
	ETCH_TERM_RIP_LOW,     /* rip & 15 */
	ETCH_TERM_RIP_GE,      /* ((rip & 15) >= step) * off */
	ETCH_TERM_REG_STEP,    /* reg + add + ((rip & 15) >= step) * off */
};

#define ETCH_CFI_RIP 16u /* DWARF's number */
#define ETCH_CFI_CFA 64u /* the CFA as a base; not a register number */

struct etch_cfi_term {
	uint8_t kind, reg, step;
	int64_t off, add;
};

static inline struct etch_cfi_term etch_cfi_term_sum(struct etch_cfi_term a, struct etch_cfi_term b)
{
	struct etch_cfi_term none = {ETCH_TERM_NONE, 0, 0, 0, 0}, t;

	if (a.kind == ETCH_TERM_CONST ||
	    ((a.kind == ETCH_TERM_RIP_GE || a.kind == ETCH_TERM_REG_8) && b.kind == ETCH_TERM_REG)) {
		t = a;
		a = b;
		b = t;
	}
	if (b.kind == ETCH_TERM_CONST && a.kind != ETCH_TERM_NONE && a.kind != ETCH_TERM_RIP_LOW &&
	    a.kind != ETCH_TERM_RIP_GE) {
		if (__builtin_add_overflow(a.add, b.add, &a.add))
			return none;
		return a;
	}
	if (b.kind == ETCH_TERM_RIP_GE && a.kind == ETCH_TERM_REG && a.reg != ETCH_CFI_RIP) {
		a.kind = ETCH_TERM_REG_STEP;
		a.step = b.step;
		a.off = b.off;
		return a;
	}
	if (b.kind == ETCH_TERM_REG_8 && a.kind == ETCH_TERM_REG && a.reg == 7 && b.reg != 7) {
		a.kind = ETCH_TERM_INDEX;
		a.reg = b.reg;
		return __builtin_add_overflow(a.add, b.add, &a.add) ? none : a;
	}
	return none;
}

/* Returns a register times 8. */
static inline struct etch_cfi_term etch_cfi_term_8(struct etch_cfi_term a)
{
	if (a.kind != ETCH_TERM_REG || a.reg >= ETCH_CFI_RIP || __builtin_mul_overflow(a.add, 8, &a.add))
		a.kind = ETCH_TERM_NONE;
	else
		a.kind = ETCH_TERM_REG_8;
	return a;
}

/* A binary operator: and, ge, shl, plus, minus, mul. */
static inline struct etch_cfi_term etch_cfi_term_op(uint8_t op, struct etch_cfi_term a, struct etch_cfi_term b)
{
	struct etch_cfi_term t = {ETCH_TERM_NONE, 0, 0, 0, 0};

	switch (op) {
	case 0x1a: /* and */
		if (a.kind == ETCH_TERM_REG && a.reg == ETCH_CFI_RIP && !a.add && b.kind == ETCH_TERM_CONST && b.add == 15)
			t.kind = ETCH_TERM_RIP_LOW;
		break;
	case 0x2a: /* ge */
		if (a.kind == ETCH_TERM_RIP_LOW && b.kind == ETCH_TERM_CONST && b.add >= 0 && b.add <= 15) {
			t.kind = ETCH_TERM_RIP_GE;
			t.step = (uint8_t)b.add;
			t.off = 1;
		}
		break;
	case 0x24: /* shl */
		if (a.kind == ETCH_TERM_RIP_GE && a.off == 1 && b.kind == ETCH_TERM_CONST && b.add >= 0 && b.add < 16) {
			t = a;
			t.off = (int64_t)1 << b.add;
		} else if (b.kind == ETCH_TERM_CONST && b.add == 3) {
			t = etch_cfi_term_8(a);
		}
		break;
	case 0x1e: /* mul */
		if (b.kind == ETCH_TERM_CONST && b.add == 8)
			t = etch_cfi_term_8(a);
		else if (a.kind == ETCH_TERM_CONST && a.add == 8)
			t = etch_cfi_term_8(b);
		break;
	case 0x22: /* plus */ t = etch_cfi_term_sum(a, b); break;
	case 0x1c: /* minus */
		if (b.kind == ETCH_TERM_CONST && b.add != INT64_MIN) {
			b.add = -b.add;
			t = etch_cfi_term_sum(a, b);
		}
		break;
	}
	return t;
}

/* Reads the operand of const1u (0x08) to consts (0x11). */
static inline int64_t etch_cfi_const(struct etch_cfi_in *in, uint8_t op)
{
	switch (op) {
	case 0x08: return (int64_t)etch_cfi_u(in, 1);
	case 0x09: return etch_cfi_s(in, 1);
	case 0x0a: return (int64_t)etch_cfi_u(in, 2);
	case 0x0b: return etch_cfi_s(in, 2);
	case 0x0c: return (int64_t)etch_cfi_u(in, 4);
	case 0x0d: return etch_cfi_s(in, 4);
	case 0x10: return (int64_t)etch_cfi_uleb(in);
	case 0x11: return etch_cfi_sleb(in);
	default: return etch_cfi_s(in, 8); /* const8u, const8s */
	}
}

/* Reads the rest of an operation that only pushes: a constant, or a register and a displacement. False if it is
 * another operation, or its register has no number here. */
static inline bool etch_cfi_pushes(struct etch_cfi_in *in, uint8_t op, struct etch_cfi_term *t)
{
	uint64_t reg;

	*t = (struct etch_cfi_term){ETCH_TERM_CONST, 0, 0, 0, 0};
	if (op >= 0x08 && op <= 0x11) {
		t->add = etch_cfi_const(in, op);
		return true;
	}
	if (op >= 0x30 && op <= 0x4f) { /* lit0-31 */
		t->add = op - 0x30;
		return true;
	}
	if ((op < 0x70 || op > 0x80) && op != 0x92) /* breg0-16, bregx */
		return false;
	reg = op == 0x92 ? etch_cfi_uleb(in) : op - 0x70u;
	t->kind = ETCH_TERM_REG;
	t->reg = (uint8_t)reg;
	t->add = etch_cfi_sleb(in);
	return reg <= ETCH_CFI_RIP;
}

/* Replaces a term, an address, by the value in memory there. False if no term expresses that value. */
static inline bool etch_cfi_deref(struct etch_cfi_term *t)
{
	if ((t->kind != ETCH_TERM_REG && t->kind != ETCH_TERM_INDEX) || t->reg == ETCH_CFI_RIP)
		return false;
	t->kind = t->kind == ETCH_TERM_REG ? ETCH_TERM_DEREF : ETCH_TERM_DEREF_INDEX;
	t->off = t->add;
	t->add = 0;
	return true;
}

/* Evaluates the expression at [at, end) of the section. with_cfa: the CFA is pushed first, as DWARF 5, 6.4.2.3
 * requires for register rules. */
static inline struct etch_cfi_term etch_cfi_expression(const struct etch_cfi *c, uint64_t at, uint64_t end,
                                                       bool with_cfa)
{
	const struct etch_cfi_term none = {ETCH_TERM_NONE, 0, 0, 0, 0};
	struct etch_cfi_in in = {c, at, end, false};
	struct etch_cfi_term stack[8], t;
	unsigned n = 0;

	if (end - at > ETCH_CFI_EXPRESSION_MAX)
		return none;
	if (with_cfa)
		stack[n++] = (struct etch_cfi_term){ETCH_TERM_REG, ETCH_CFI_CFA, 0, 0, 0};
	while (in.at < in.end) {
		uint8_t op = (uint8_t)etch_cfi_u(&in, 1);

		t = (struct etch_cfi_term){ETCH_TERM_CONST, 0, 0, 0, 0};
		switch (op) {
		case 0x06: /* deref */
			if (!n || !etch_cfi_deref(&stack[n - 1]))
				return none;
			continue;
		case 0x1a:
		case 0x1c:
		case 0x1e:
		case 0x22:
		case 0x24:
		case 0x2a:
			if (n < 2)
				return none;
			t = etch_cfi_term_op(op, stack[n - 2], stack[n - 1]);
			n -= 2;
			break;
		case 0x23: /* plus_uconst */
			if (!n)
				return none;
			t.add = (int64_t)etch_cfi_uleb(&in);
			t = etch_cfi_term_op(0x22, stack[n - 1], t);
			n--;
			break;
		case 0x96: /* nop */ continue;
		default:
			if (!etch_cfi_pushes(&in, op, &t))
				return none;
		}
		if (in.bad || t.kind == ETCH_TERM_NONE || n == sizeof(stack) / sizeof(stack[0]))
			return none;
		stack[n++] = t;
	}
	return n ? stack[n - 1] : none;
}

#endif
