/* SPDX-License-Identifier: MIT */
/*
 * etch/pv_forms.h: the x86-64 encodings of call sites, in both directions: the indirect call or
 * jump that the compiler wrote, and its replacement of the same length.
 *
 * Entries of __pv_sites have the layout of struct etch_imv (etch/format.h), so that the same code
 * sorts, searches and changes both tables; regs, shape and flags are decoded by the functions
 * below. The object is the slot: the eight bytes that hold the function pointer.
 *
 * The tool and libetch share it, as they do etch/forms.h. No libc, no allocation,
 * async-signal-safe. Encodings: Intel SDM vol. 2, CALL, JMP, NOP; AMD64 APM vol. 3. Prefixes
 * without effect on these instructions pad them: 0x67 before a direct call (as linkers write it:
 * psABI B.2), 0x2e elsewhere.
 */
#ifndef ETCH_PV_FORMS_H
#define ETCH_PV_FORMS_H

#include <etch/forms.h>

#ifdef __cplusplus
extern "C" {
#endif

/* These numbers continue enum etch_form: table files store them, and they are never reused. */
enum etch_pv_form {
	ETCH_FORM_CALL = 64, /* ff /2 */
	ETCH_FORM_JMP = 65,  /* ff /4: a tail call */
};

/* A fourth addressing mode (bits 4-5 of shape, after enum etch_addressing): the pointer is in a register, which was
 * loaded from the slot on every path to the site. */
#define ETCH_ADDR_REG 3u

#define ETCH_PV_NOTRACK 0x80u /* in shape: a 3e prefix (notrack) precedes the opcode */

static inline int etch_form_is_pv(unsigned form) { return form == ETCH_FORM_CALL || form == ETCH_FORM_JMP; }

/*
 * Fields of an entry of __pv_sites:
 *   regs   bits 0-3 the register: base (ETCH_ADDR_BASE) or target (ETCH_ADDR_REG), else 0;
 *          bits 4-7 low half of the displacement / 8
 *   shape  bits 0-3 length, 4-5 addressing, 6 REX prefix, 7 ETCH_PV_NOTRACK
 *   flags  bits 0-1 ETCH_IMV_BAKED, ETCH_IMV_GOT; bits 4-7 high half of the displacement / 8
 * The displacement, with ETCH_ADDR_BASE only, is a signed byte times 8. The instruction has
 * no displacement byte, one or four: its length tells. With ETCH_IMV_GOT `obj` is a GOT slot,
 * and the function pointer lies at the slot's contents plus the displacement: with
 * ETCH_ADDR_BASE the base register holds these contents; with ETCH_ADDR_REG the displacement
 * is not encoded in the site's bytes.
 */
static inline unsigned etch_pv_reg(const struct etch_imv *e) { return e->regs & 15u; }
static inline int etch_pv_disp(const struct etch_imv *e) { return (int8_t)((e->regs >> 4) | (e->flags & 0xf0)) * 8; }

/* Sets register and displacement. False if the displacement cannot be encoded. */
static inline int etch_pv_set(struct etch_imv *e, unsigned reg, int64_t disp)
{
	if (disp % 8 || disp < -1024 || disp > 1016)
		return 0;
	e->regs = (uint8_t)(reg | ((unsigned)(disp / 8) & 15u) << 4);
	e->flags = (uint8_t)((e->flags & ETCH_IMV_FLAGS) | ((unsigned)(disp / 8) & 0xf0u));
	return 1;
}

/* Is an entry of __pv_sites well formed? The counterpart of etch_imv_valid(). */
static inline int etch_pv_valid(const struct etch_imv *e)
{
	unsigned mode = etch_imv_addressing(e), len = etch_imv_len(e);

	if (e->form == ETCH_FORM_NONE)
		return !e->site && !e->obj && !e->regs && !e->shape && !e->flags;
	if (!etch_form_is_pv(e->form) || (e->flags & 0x0c) || len < 2 || len > 9)
		return 0;
	if (mode != ETCH_ADDR_BASE && !(mode == ETCH_ADDR_REG && (e->flags & ETCH_IMV_GOT)) && etch_pv_disp(e))
		return 0;
	if (mode != ETCH_ADDR_BASE && mode != ETCH_ADDR_REG && etch_pv_reg(e))
		return 0;
	/* With a GOT slot, the base register or the target register was loaded through the slot. */
	return !(e->flags & ETCH_IMV_GOT) || (mode >= ETCH_ADDR_BASE && !(e->flags & ETCH_IMV_BAKED));
}

/*
 * Writes the indirect form of a site at address `site` whose function pointer lies at `slot`.
 * Writes at most 16 bytes and returns the length; 0 when the entry is malformed or slot is out of
 * range. The length equals etch_imv_len(e) for every entry that the tool accepted.
 */
static inline unsigned etch_pv_load(const struct etch_imv *e, uint64_t site, uint64_t slot, uint8_t out[16])
{
	unsigned reg = etch_pv_reg(e), mode = etch_imv_addressing(e), len = etch_imv_len(e), n = 0, left;
	unsigned field = e->form == ETCH_FORM_CALL ? 2u : 4u;
	int64_t disp = 0;

	if (!etch_form_is_pv(e->form))
		return 0;
	if (e->shape & ETCH_PV_NOTRACK)
		out[n++] = 0x3e;
	if ((reg & 8) && !etch_imv_rex(e))
		return 0;
	if (etch_imv_rex(e))
		out[n++] = (uint8_t)(0x40 | (reg & 8 ? 1 : 0));
	out[n++] = 0xff;
	if (mode == ETCH_ADDR_REG) {
		out[n++] = (uint8_t)(0xc0 | field << 3 | (reg & 7));
		return n;
	}
	if (mode == ETCH_ADDR_RIP) {
		out[n++] = (uint8_t)(field << 3 | 5);
		disp = (int64_t)(slot - (site + n + 4));
		left = 4;
	} else if (mode == ETCH_ADDR_ABS) {
		out[n++] = (uint8_t)(field << 3 | 4);
		out[n++] = 0x25;
		disp = (int64_t)slot;
		left = 4;
	} else {
		unsigned sib = (reg & 7) == 4;

		disp = etch_pv_disp(e);
		left = len - n - 1 - sib; /* bytes left for the displacement */
		if (len < n + 1 + sib || (left && left != 1 && left != 4))
			return 0;
		if ((!left && (disp || (reg & 7) == 5)) || (left == 1 && disp != (int8_t)disp))
			return 0;
		out[n++] = (uint8_t)(etch_modrm_mod(left) | field << 3 | (reg & 7));
		if (sib)
			out[n++] = 0x24; /* no index (SDM vol. 2, table 2-3) */
	}
	return disp == (int32_t)disp ? n + etch_put(out + n, (uint64_t)disp, left) : 0;
}

/* The effect of a function that is short enough to replace a call. */
struct etch_pv_body {
	uint8_t len; /* bytes; 0: the function does nothing */
	uint8_t one; /* at most one instruction, whose meaning a 0x2e prefix does not change */
	uint8_t bytes[ETCH_NATIVE_MOST];
};

/* Do these `n` bytes begin with a ret, perhaps with a rep prefix (f3)? */
static inline int etch_pv_is_ret(const uint8_t *b, uint64_t n)
{
	if (n && b[0] == 0xf3) {
		b++;
		n--;
	}
	return n && b[0] == 0xc3;
}

/*
 * Recognizes, by its first bytes, a function that does nothing, returns its first argument, or
 * returns a constant; this is what a stub of an ops table compiles to. A function that accesses
 * memory is never recognized, because its faults would then appear in another function; use
 * PV_NATIVE for these. `avail` is the number of bytes readable at `at`. Returns true and *body, or
 * false.
 */
static inline int etch_pv_tiny(const uint8_t *at, uint64_t avail, struct etch_pv_body *body)
{
	static const struct {
		uint8_t len, code[3];
	} known[] = {
		{0, {0}},
		{2, {0x31, 0xc0}},       /* xor %eax,%eax */
		{2, {0x89, 0xf8}},       /* mov %edi,%eax */
		{3, {0x48, 0x89, 0xf8}}, /* mov %rdi,%rax */
	};
	uint8_t b[11];
	uint64_t n = 0, i, k;

	for (; n < sizeof(b) && n < avail; n++)
		b[n] = at[n];
	i = n >= 4 && b[0] == 0xf3 && b[1] == 0x0f && b[2] == 0x1e && b[3] == 0xfa ? 4 : 0; /* endbr64 */
	body->one = 1;
	for (k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
		uint64_t m = 0;

		while (m < known[k].len && i + m < n && b[i + m] == known[k].code[m])
			m++;
		if (m == known[k].len && etch_pv_is_ret(b + i + m, n - i - m)) {
			body->len = known[k].len;
			for (m = 0; m < known[k].len; m++)
				body->bytes[m] = known[k].code[m];
			return 1;
		}
	}
	if (i + 6 <= n && b[i] == 0xb8 && b[i + 5] == 0xc3) { /* mov $imm32,%eax */
		body->len = 5;
		for (k = 0; k < 5; k++)
			body->bytes[k] = b[i + k];
		return 1;
	}
	return 0;
}

/* One nop of 2 to 9 bytes (SDM vol. 2, NOP, table 4-12). */
static inline void etch_pv_nop_bytes(unsigned len, uint8_t *out)
{
	static const uint8_t nop[8][9] = {
		{0x66, 0x90},       {0x0f, 0x1f, 0x00}, {0x0f, 0x1f, 0x40},       {0x0f, 0x1f, 0x44}, {0x66, 0x0f, 0x1f, 0x44},
		{0x0f, 0x1f, 0x80}, {0x0f, 0x1f, 0x84}, {0x66, 0x0f, 0x1f, 0x84},
	};
	unsigned i;

	for (i = 0; i < len; i++)
		out[i] = nop[len - 2][i];
}

/* Writes the instructions of a body, padded to `len` bytes; returns their number. */
static inline unsigned etch_pv_put_body(const struct etch_pv_body *body, unsigned len, uint8_t out[16])
{
	unsigned pad = len - body->len, n = 0, i;

	if (body->one)
		while (n < pad)
			out[n++] = 0x2e;
	for (i = 0; i < body->len; i++)
		out[n++] = body->bytes[i];
	if (body->one)
		return 1;
	if (pad == 1)
		out[n] = 0x90;
	else if (pad)
		etch_pv_nop_bytes(pad, out + n);
	return 2;
}

/* Writes a direct call or jump of `len` bytes, at least 5. Returns len, or 0 if the target is out of range. */
static inline unsigned etch_pv_direct(unsigned jump, unsigned len, uint64_t site, uint64_t target, uint8_t out[16])
{
	int64_t rel = (int64_t)(target - (site + len));
	unsigned n;

	if (rel != (int32_t)rel)
		return 0;
	/* The prefixes keep the return address of the indirect form. */
	for (n = 0; n < len - 5; n++)
		out[n] = jump ? 0x2e : 0x67;
	out[n++] = jump ? 0xe9 : 0xe8;
	return n + etch_put(out + n, (uint64_t)rel, 4);
}

/*
 * Writes the bytes of the site while its slot holds `target`, padded to the site's length. With a
 * body, these are its instructions (for an empty body, a nop, or a ret at a jump site); without
 * one, a direct call or jump. Returns the length, or 0 if the indirect form stays, because the
 * target is null or out of range or the site is too short.
 *
 * *count gets the number of instructions written. One instruction may be stored while threads run
 * if the site is live; more than one only while the process has one thread.
 */
static inline unsigned etch_pv_image(const struct etch_imv *e, uint64_t site, uint64_t target,
                                     const struct etch_pv_body *body, uint8_t out[16], unsigned *count)
{
	unsigned len = etch_imv_len(e), n = 0, jump = e->form == ETCH_FORM_JMP;

	*count = 1;
	if (!target || len < 2 || len > 9 || !etch_form_is_pv(e->form))
		return 0;
	if (body && !body->len) {
		if (!jump) {
			etch_pv_nop_bytes(len, out);
			return len;
		}
		while (n < len - 1)
			out[n++] = 0x2e;
		out[n++] = 0xc3;
		return len;
	}
	if (body && !jump && body->len <= len && (body->one || body->len == len || len - body->len <= 9)) {
		*count = etch_pv_put_body(body, len, out);
		return len;
	}
	return len < 5 ? 0 : etch_pv_direct(jump, len, site, target, out);
}

/*
 * Sites of __pv_inline: a jump with the prefixes 3e 2e, which no compiler or assembler emits, or a
 * nop whose operand holds the jump's displacement. A site is seven bytes in one aligned 8-byte
 * word; the first three change.
 */
#define ETCH_INLINE_LEN  7u
#define ETCH_INLINE_HEAD 3u
static inline void etch_inline_head(int in_place, uint8_t out[3])
{
	out[0] = in_place ? 0x0f : 0x3e;
	out[1] = in_place ? 0x1f : 0x2e;
	out[2] = in_place ? 0x80 : 0xe9; /* nopl disp32(%rax); jmp rel32 */
}
/* 1: the case in place (a nop), 0: a jump, -1: neither. */
static inline int etch_inline_state(const uint8_t *bytes)
{
	if (bytes[0] == 0x0f && bytes[1] == 0x1f && bytes[2] == 0x80)
		return 1;
	return bytes[0] == 0x3e && bytes[1] == 0x2e && bytes[2] == 0xe9 ? 0 : -1;
}

/* Is a record of __pv_native well formed? The compiler may record a sequence of any length (etch/pv.h cannot check
 * it); the tool checks the short ones and marks them ETCH_NATIVE_CHECKED. */
static inline int etch_native_valid(const struct etch_native *x)
{
	return !x->zero && (x->len <= ETCH_NATIVE_MOST || !x->flags) &&
	       !(x->flags & ~(ETCH_NATIVE_CHECKED | ETCH_NATIVE_ONE));
}

#ifdef __cplusplus
}
#endif
#endif
