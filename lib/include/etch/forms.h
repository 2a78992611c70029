/* SPDX-License-Identifier: MIT */
/*
 * etch/forms.h: the x86-64 instruction encodings of load sites, in both directions: the load that
 * the compiler wrote, and the immediate form that replaces it, one instruction for one instruction
 * and of the same length.
 *
 * The tool and libetch share it. The tool accepts a site only when etch_form_load() gives back
 * exactly the bytes it found, and libetch regenerates either form at run time and never keeps a
 * copy of the original bytes.
 *
 * No libc, no allocation, async-signal-safe. Encodings: Intel SDM vol. 2, chapters 2 and 3-5; AMD64
 * APM vol. 3. Prefixes that mean nothing on these instructions in 64-bit mode pad them: 0x40 (REX
 * with no bit) where the instruction has no REX and no byte register, then 0x2e (CS override).
 */
#ifndef ETCH_FORMS_H
#define ETCH_FORMS_H

#include <etch/format.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Table files store the number of a form: never reuse or renumber. Numbers from 0x80 on are
 * reserved for sites that are patched with a branch.
 */
enum etch_form {
	ETCH_FORM_NONE = 0,
	/* dst <- memory */
	ETCH_FORM_MOV8 = 1,        /* 8a /r; upper bits of the register are kept */
	ETCH_FORM_MOV16 = 2,       /* 66 8b /r; upper bits kept */
	ETCH_FORM_MOV32 = 3,       /* 8b /r; zero-extends to 64 bits */
	ETCH_FORM_MOV64 = 4,       /* REX.W 8b /r */
	ETCH_FORM_MOVZX8_16 = 5,   /* 66 0f b6 /r */
	ETCH_FORM_MOVZX8_32 = 6,   /* 0f b6 /r */
	ETCH_FORM_MOVZX8_64 = 7,   /* REX.W 0f b6 /r */
	ETCH_FORM_MOVZX16_32 = 8,  /* 0f b7 /r */
	ETCH_FORM_MOVZX16_64 = 9,  /* REX.W 0f b7 /r */
	ETCH_FORM_MOVSX8_16 = 10,  /* 66 0f be /r */
	ETCH_FORM_MOVSX8_32 = 11,  /* 0f be /r */
	ETCH_FORM_MOVSX8_64 = 12,  /* REX.W 0f be /r */
	ETCH_FORM_MOVSX16_32 = 13, /* 0f bf /r */
	ETCH_FORM_MOVSX16_64 = 14, /* REX.W 0f bf /r */
	ETCH_FORM_MOVSX32_64 = 15, /* REX.W 63 /r */
	/* dst <- dst op memory; form = ALU + 4 * op + log2(width in bytes) */
	ETCH_FORM_ALU = 16, /* op: add or adc sbb and sub xor cmp, in the order of the opcode map */
	ETCH_FORM_ALU_LAST = 47,
	/* flags <- dst & memory; + log2(width) */
	ETCH_FORM_TEST8 = 48,  /* 84 /r */
	ETCH_FORM_TEST64 = 51, /* REX.W 85 /r */
	/* dst <- dst * memory; + log2(width), no 8-bit form */
	ETCH_FORM_IMUL16 = 53, /* 66 0f af /r */
	ETCH_FORM_IMUL64 = 55, /* REX.W 0f af /r */
	ETCH_FORM_PUSH64 = 56, /* ff /6 */
	/* 64 and 65 are calls: etch/pv_forms.h */
	/* flags <- memory - src; + log2(width) */
	ETCH_FORM_CMPR8 = 66,  /* 38 /r */
	ETCH_FORM_CMPR64 = 69, /* REX.W 39 /r */
	/* flags <- memory - constant; the constant is in struct etch_imv_more; + log2(width) */
	ETCH_FORM_CMPI8 = 70,  /* 80 /7 ib */
	ETCH_FORM_CMPI64 = 73, /* REX.W 81 /7 id, 83 /7 ib */
	/* flags <- memory & constant; + log2(width) */
	ETCH_FORM_TESTI8 = 74,  /* f6 /0 ib */
	ETCH_FORM_TESTI64 = 77, /* REX.W f7 /0 id */
	ETCH_FORM_LAST = 77,
	ETCH_FORM_MORE = 78, /* no instruction: a struct etch_imv_more */
};

/* How the immediate form holds the new value. */
enum etch_imm_kind {
	ETCH_IMM_KEEP,  /* an immediate as wide as the operand, 8 or 16 bits */
	ETCH_IMM_32,    /* 32-bit result */
	ETCH_IMM_SX,    /* imm32 sign-extended to 64 bits; the site keeps its load if the value is out of range */
	ETCH_IMM_MOV64, /* REX.W mov with simm32; a 32-bit mov (which zero-extends); or a lea relative to the site */
	ETCH_IMM_FLAGS, /* no immediate: an instruction that sets the flags as the compare would */
};

/* A form decoded from its number. Used only by the two encoders below and by listings. */
struct etch_form_info {
	uint8_t mem;     /* bytes read from memory: 1, 2, 4 or 8; 0 = no such form */
	uint8_t width;   /* operand width in bytes */
	uint8_t sign;    /* 1 = sign-extends from mem to width */
	uint8_t escape;  /* 1 = opcode follows 0x0f */
	uint8_t opcode;  /* opcode of the load form */
	uint8_t digit;   /* ModRM.reg of the load form; 8 = the register */
	uint8_t imm_op;  /* opcode of the immediate form */
	uint8_t imm_ext; /* ModRM.reg of the immediate form; 8 = same register as rm (imul); 9 = no ModRM (push) */
	uint8_t imm;     /* enum etch_imm_kind */
};

/* How an instruction other than a mov holds the new value, by the width of its operand (enum etch_imm_kind). */
static inline uint8_t etch_imm_of_width(unsigned width)
{
	switch (width) {
	case 8: return ETCH_IMM_SX;
	case 4: return ETCH_IMM_32;
	default: return ETCH_IMM_KEEP;
	}
}

/* The number of bytes of an immediate for an operand of this width. */
static inline unsigned etch_imm_len(unsigned width) { return width == 1 || width == 2 ? width : 4; }

/* Does what etch_form_info() does, for the forms that compare. */
static inline struct etch_form_info etch_compare_info(unsigned form)
{
	struct etch_form_info f = {0, 0, 0, 0, 0, 0, 0, 0, 0};
	unsigned k = (form - ETCH_FORM_CMPR8) & 3u;

	f.mem = f.width = (uint8_t)(1u << k);
	f.digit = 8;
	if (form <= ETCH_FORM_CMPR64) {
		f.opcode = k ? 0x39 : 0x38;
		f.imm_op = k ? 0x81 : 0x80;
		f.imm_ext = 7;
		f.imm = etch_imm_of_width(f.width);
		return f;
	}
	f.imm = ETCH_IMM_FLAGS;
	if (form <= ETCH_FORM_CMPI64) {
		f.digit = 7;
		f.opcode = k ? 0x81 : 0x80;
	} else {
		f.digit = 0;
		f.opcode = k ? 0xf7 : 0xf6;
	}
	return f;
}

static inline struct etch_form_info etch_form_info(unsigned form)
{
	struct etch_form_info f = {0, 0, 0, 0, 0, 0, 0, 0, 0};
	static const struct {
		uint8_t mem, width, sign, escape, opcode;
	} mov[16] = {
		{0, 0, 0, 0, 0},    {1, 1, 0, 0, 0x8a}, {2, 2, 0, 0, 0x8b}, {4, 4, 0, 0, 0x8b},
		{8, 8, 0, 0, 0x8b}, {1, 2, 0, 1, 0xb6}, {1, 4, 0, 1, 0xb6}, {1, 8, 0, 1, 0xb6},
		{2, 4, 0, 1, 0xb7}, {2, 8, 0, 1, 0xb7}, {1, 2, 1, 1, 0xbe}, {1, 4, 1, 1, 0xbe},
		{1, 8, 1, 1, 0xbe}, {2, 4, 1, 1, 0xbf}, {2, 8, 1, 1, 0xbf}, {4, 8, 1, 0, 0x63},
	};
	unsigned k;

	f.digit = 8;
	if (form >= 1 && form <= 15) {
		f.mem = mov[form].mem;
		f.width = mov[form].width;
		f.sign = mov[form].sign;
		f.escape = mov[form].escape;
		f.opcode = mov[form].opcode;
		f.imm_op = f.width == 1 ? 0xc6 : 0xc7;
		f.imm = f.width == 8 ? (uint8_t)ETCH_IMM_MOV64 : etch_imm_of_width(f.width);
		return f;
	}
	if (form >= ETCH_FORM_ALU && form <= ETCH_FORM_ALU_LAST) {
		k = form - ETCH_FORM_ALU;
		f.opcode = (uint8_t)((k >> 2) * 8 + ((k & 3) ? 3 : 2));
		f.imm_op = (k & 3) ? 0x81 : 0x80;
		f.imm_ext = (uint8_t)(k >> 2);
	} else if (form >= ETCH_FORM_TEST8 && form <= ETCH_FORM_TEST64) {
		k = form - ETCH_FORM_TEST8;
		f.opcode = k ? 0x85 : 0x84;
		f.imm_op = k ? 0xf7 : 0xf6;
	} else if (form >= ETCH_FORM_IMUL16 && form <= ETCH_FORM_IMUL64) {
		k = form - ETCH_FORM_IMUL16 + 1;
		f.escape = 1;
		f.opcode = 0xaf;
		f.imm_op = 0x69;
		f.imm_ext = 8;
	} else if (form == ETCH_FORM_PUSH64) {
		k = 3;
		f.opcode = 0xff;
		f.digit = 6;
		f.imm_op = 0x68;
		f.imm_ext = 9;
	} else {
		return form >= ETCH_FORM_CMPR8 && form <= ETCH_FORM_LAST ? etch_compare_info(form) : f;
	}
	f.mem = f.width = (uint8_t)(1u << (k & 3));
	f.imm = etch_imm_of_width(f.width);
	return f;
}

/* Is the form a compare or test of memory with a constant, whose only result is flags? */
static inline int etch_form_is_flags(unsigned form) { return form >= ETCH_FORM_CMPI8 && form <= ETCH_FORM_TESTI64; }

/* The number of bytes of memory that a site of this form reads: 1, 2, 4 or 8; 0 if there is no such form. */
static inline unsigned etch_form_size(unsigned form) { return etch_form_info(form).mem; }

/* Can libetch's core change the site by itself (ETCH_PART_CORE)? It can if the site is the load of imv_read. */
static inline int etch_form_is_core(const struct etch_imv *e)
{
	return (e->form == ETCH_FORM_MOV32 || e->form == ETCH_FORM_MOV64) && !(e->flags & ETCH_IMV_MORE);
}

/* The second record of an entry in a table; null if the entry has none. */
static inline const struct etch_imv_more *etch_imv_more(const struct etch_imv *e)
{
	return e->flags & ETCH_IMV_MORE ? (const struct etch_imv_more *)(const void *)(e + 1) : 0;
}

/* Writes the low `n` bytes of a number; returns n. */
static inline unsigned etch_put(uint8_t *out, uint64_t number, unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++)
		out[i] = (uint8_t)(number >> (8 * i));
	return n;
}

/* The bits `mod` of a ModRM byte before a displacement of 0, 1 or 4 bytes from a register (SDM vol. 2, table 2-2). */
static inline unsigned etch_modrm_mod(unsigned disp_len)
{
	if (disp_len == 4)
		return 0x80;
	return disp_len ? 0x40 : 0;
}

/*
 * Writes the ModRM byte, SIB and displacement of a load. `from` is the address of the ModRM byte, plus the length of
 * what follows the displacement. Returns their length; 0 when the entry is malformed or obj is out of range.
 */
static inline unsigned etch_form_operand(const struct etch_imv *e, const struct etch_imv_more *m, unsigned field,
                                         uint64_t from, uint64_t obj, uint8_t *out)
{
	unsigned base = etch_imv_base(e), mode = etch_imv_addressing(e), n = 0, disp_len = 4;
	int64_t disp = 0;

	if (mode == ETCH_ADDR_RIP) {
		out[n++] = (uint8_t)(field << 3 | 5);
		disp = (int64_t)(obj - (from + 5));
	} else if (mode == ETCH_ADDR_ABS) {
		out[n++] = (uint8_t)(field << 3 | 4);
		out[n++] = 0x25;
		disp = (int64_t)obj;
	} else {
		if (mode == ETCH_ADDR_DISP) {
			if (!m)
				return 0;
			disp_len = etch_more_disp_len(m);
			disp = m->disp;
		}
		if (base == 4 || (!disp_len && (base & 7) == 5))
			return 0; /* rsp is never accepted as the base of a site; rbp and r13 always have a displacement */
		out[n++] = (uint8_t)(etch_modrm_mod(disp_len) | field << 3 | (base & 7));
		if (base == 12)
			out[n++] = 0x24; /* r12 as a base takes a SIB byte (SDM vol. 2, table 2-5) */
	}
	if (disp != (int32_t)disp)
		return 0;
	return n + etch_put(out + n, (uint64_t)disp, disp_len);
}

/*
 * Writes the load form of a site at address `site` that reads from address `obj`. m: what etch_imv_more() gives for
 * an entry in a table; f: etch_form_info(). Writes at most 16 bytes to out and returns the length; 0 when the entry
 * is malformed or obj is out of range. The length equals etch_imv_len(e) for every entry that the tool accepted.
 */
static inline unsigned etch_info_load(struct etch_form_info f, const struct etch_imv *e, const struct etch_imv_more *m,
                                      uint64_t site, uint64_t obj, uint8_t out[16])
{
	unsigned reg = etch_imv_reg(e), base = etch_imv_base(e), mode = etch_imv_addressing(e);
	unsigned rex = 0, n = 0, k, imm_len = 0;

	if (!f.mem || (f.digit < 8 && reg) || (e->shape & 0x80) || (mode < ETCH_ADDR_BASE && base))
		return 0;
	if (f.imm == ETCH_IMM_FLAGS) {
		if (!m)
			return 0;
		imm_len = etch_more_imm_len(m);
	}
	if (f.width == 2)
		out[n++] = 0x66;
	if (f.width == 8 && f.digit != 6) /* not push */
		rex |= 8;
	if (reg & 8)
		rex |= 4;
	if (base & 8)
		rex |= 1;
	if (rex && !etch_imv_rex(e))
		return 0; /* malformed: register 4 of a byte form would be spl here, but ah in etch_form_imm() */
	if (etch_imv_rex(e))
		out[n++] = (uint8_t)(0x40 | rex);
	if (f.escape)
		out[n++] = 0x0f;
	out[n++] = f.opcode == 0x81 && imm_len == 1 ? 0x83 : f.opcode;
	k = etch_form_operand(e, m, f.digit < 8 ? f.digit : reg & 7u, site + n + imm_len, obj, out + n);
	if (!k)
		return 0;
	n += k;
	return n + (imm_len ? etch_put(out + n, (uint64_t)(int64_t)m->imm, imm_len) : 0);
}

static inline unsigned etch_site_load(const struct etch_imv *e, const struct etch_imv_more *m, uint64_t site,
                                      uint64_t obj, uint8_t out[16])
{
	return etch_info_load(etch_form_info(e->form), e, m, site, obj, out);
}

/* Writes the load form as etch_site_load() does, for an entry in a table. */
static inline unsigned etch_form_load(const struct etch_imv *e, uint64_t site, uint64_t obj, uint8_t out[16])
{
	return etch_site_load(e, etch_imv_more(e), site, obj, out);
}

/* The flags (ETCH_NEED_*) that result when the value `v` in memory is compared with, or tested against, the constant
 * of m. */
static inline unsigned etch_form_outcome(unsigned form, const struct etch_imv_more *m, uint64_t v)
{
	unsigned shift = 64 - 8 * etch_form_size(form);
	uint64_t a = v << shift, b = (uint64_t)(int64_t)m->imm << shift;

	if (form >= ETCH_FORM_TESTI8) { /* CF and OF are 0 */
		a &= b;
		b = 0;
	}
	return (a == b ? ETCH_NEED_EQUAL : 0) | (a < b ? ETCH_NEED_BELOW : 0) |
	       ((int64_t)a < (int64_t)b ? ETCH_NEED_LESS : 0);
}

/*
 * Writes the instruction of `len` bytes that gives these flags, as far as m asks for them, and changes nothing else.
 * It operates on the stack pointer, which is known not to be 0 and to be less than 2^63, as an address of user space
 * (psABI 3.3.2), and to be even, which the tool proves wherever ETCH_NEED_LESS is asked for.
 */
static inline unsigned etch_form_flags(const struct etch_imv_more *m, unsigned flags, unsigned len, uint8_t out[16])
{
	static const uint8_t image[7][7] = {
		{0x48, 0x39, 0xe4},                         /* cmp %rsp,%rsp */
		{0x48, 0x85, 0xe4},                         /* test %rsp,%rsp */
		{0x48, 0x83, 0xfc, 0xff},                   /* cmp $-1,%rsp: below, and greater */
		{0x40, 0x80, 0xfc, 0x7f},                   /* cmp $0x7f,%spl: less, because spl is 0x7e at most */
		{0x48, 0xf7, 0xc4, 0, 0, 0, 0},             /* test $0,%rsp */
		{0x48, 0xf7, 0xc4, 0xff, 0xff, 0xff, 0xff}, /* test $-1,%rsp: above and greater */
		{0x48, 0x81, 0xfc, 0xff, 0xff, 0xff, 0xff}, /* cmp $-1,%rsp */
	};
	static const uint8_t length[7] = {3, 3, 4, 4, 7, 7, 7};
	unsigned wide = len >= 7, n, k, i;

	flags &= m->need;
	if (flags & ETCH_NEED_EQUAL)
		k = wide ? 4 : 0;
	else if (flags & ETCH_NEED_BELOW)
		k = wide ? 6 : 2;
	else if (flags)
		k = 3;
	else
		k = wide ? 5 : 1;
	n = length[k];
	if (len < n || len > 15 || (m->need & (ETCH_NEED_BELOW | ETCH_NEED_LESS)) == (ETCH_NEED_BELOW | ETCH_NEED_LESS))
		return 0;
	for (i = 0; i < len; i++)
		out[i] = i < len - n ? 0x2e : image[k][i - (len - n)];
	return len;
}

/* Writes `lea value(%rip),%reg`, for a mov64 whose value no mov holds: an address near the code. The arguments and
 * the result are those of etch_site_imm(). */
static inline unsigned etch_form_lea(const struct etch_imv *e, uint64_t site, uint64_t value, uint8_t out[16])
{
	unsigned len = etch_imv_len(e), reg = etch_imv_reg(e), n = 0;
	int64_t disp = (int64_t)(value - (site + len));

	if (!site || len < 7 || disp != (int32_t)disp)
		return 0;
	while (n < len - 7)
		out[n++] = 0x2e;
	out[n++] = (uint8_t)(0x48 | (reg & 8) >> 1);
	out[n++] = 0x8d;
	out[n++] = (uint8_t)((reg & 7) << 3 | 5);
	return n + etch_put(out + n, (uint64_t)disp, 4);
}

/* The value in memory, extended to the operand as the form does. */
static inline int64_t etch_info_value(struct etch_form_info f, uint64_t v)
{
	unsigned shift = 64 - 8u * f.mem;

	return !f.sign && f.mem < f.width ? (int64_t)v : (int64_t)(v << shift) >> shift;
}

/*
 * Writes the immediate form of a site for the value in `bytes` (etch_form_size(form) bytes, as they
 * lie in memory), padded to etch_imv_len(e). `site` is the site's address where it runs, or 0 if
 * that is unknown (then no lea is used). Returns that length, or 0 when the value does not fit this
 * instruction (the site then keeps its load) or the entry is malformed.
 */
static inline unsigned etch_info_imm(struct etch_form_info f, const struct etch_imv *e, const struct etch_imv_more *m,
                                     uint64_t site, const uint8_t *bytes, uint8_t out[16])
{
	unsigned reg = etch_imv_reg(e), len = etch_imv_len(e), i, n, pad;
	unsigned wide, rex = 0, immlen, fixed, has_rex, byte_reg;
	uint64_t v = 0;
	int64_t s;

	if (!f.mem)
		return 0;
	for (i = 0; i < f.mem; i++)
		v |= (uint64_t)bytes[i] << (8 * i);
	if (f.imm == ETCH_IMM_FLAGS)
		return m ? etch_form_flags(m, etch_form_outcome(e->form, m, v), len, out) : 0;
	s = etch_info_value(f, v);
	wide = f.width == 8 && f.imm_ext != 9;
	if (f.width == 8 && s != (int32_t)s) {
		if (f.imm != ETCH_IMM_MOV64)
			return 0;
		if ((uint64_t)s > 0xffffffffu)
			return etch_form_lea(e, site, (uint64_t)s, out);
		wide = 0; /* mov $imm32,%r32 clears the upper half */
	}
	immlen = etch_imm_len(f.width);
	byte_reg = f.width == 1;
	if (wide)
		rex |= 8;
	if (reg & 8)
		rex |= f.imm_ext == 8 ? 5 : 1;
	has_rex = rex || (byte_reg && etch_imv_rex(e));
	fixed = (f.width == 2) + 1u + (f.imm_ext != 9) + immlen;
	if (fixed + has_rex > len)
		return 0;
	pad = len - fixed - has_rex;
	if (pad && !has_rex && !byte_reg) {
		has_rex = 1; /* a REX prefix without bits pads by one byte */
		pad--;
	}
	n = 0;
	while (pad--)
		out[n++] = 0x2e;
	if (f.width == 2)
		out[n++] = 0x66;
	if (has_rex)
		out[n++] = (uint8_t)(0x40 | rex);
	out[n++] = f.imm_op;
	if (f.imm_ext == 8)
		out[n++] = (uint8_t)(0xc0 | (reg & 7) << 3 | (reg & 7));
	else if (f.imm_ext != 9)
		out[n++] = (uint8_t)(0xc0 | f.imm_ext << 3 | (reg & 7));
	return n + etch_put(out + n, (uint64_t)s, immlen);
}

static inline unsigned etch_site_imm(const struct etch_imv *e, const struct etch_imv_more *m, uint64_t site,
                                     const uint8_t *bytes, uint8_t out[16])
{
	return etch_info_imm(etch_form_info(e->form), e, m, site, bytes, out);
}

/* Writes the immediate form as etch_site_imm() does, for an entry in a table. */
static inline unsigned etch_form_imm(const struct etch_imv *e, uint64_t site, const uint8_t *bytes, uint8_t out[16])
{
	return etch_site_imm(e, etch_imv_more(e), site, bytes, out);
}

/* Can a compare or test with a constant have the immediate of m, and can its bytes give the flags that m asks for? */
static inline int etch_more_flags_fit(const struct etch_imv *e, const struct etch_imv_more *m)
{
	unsigned imm = etch_more_imm_len(m), width = etch_form_size(e->form), order = ETCH_NEED_BELOW | ETCH_NEED_LESS;

	if ((imm != 1 || (e->form >= ETCH_FORM_TESTI8 && width > 1)) && imm != (width > 4 ? 4 : width))
		return 0;
	return !(m->need & ~ETCH_NEED_FLAGS) && (m->need & order) != order &&
	       etch_imv_len(e) >= ((m->need & order) ? 4u : 3u);
}

/* Can the instruction of an entry have these operands, and can its bytes give these flags? */
static inline int etch_more_fits(const struct etch_imv *e, const struct etch_imv_more *m)
{
	unsigned imm = etch_more_imm_len(m), disp = etch_more_disp_len(m);

	if (etch_form_is_flags(e->form)) {
		if (!etch_more_flags_fit(e, m))
			return 0;
	} else if (imm || m->need || m->imm || disp != 4) {
		return 0;
	}
	if (imm && imm < 4 && m->imm != (imm == 1 ? (int8_t)m->imm : (int16_t)m->imm))
		return 0;
	if (etch_imv_addressing(e) != ETCH_ADDR_DISP)
		return !disp && !m->disp;
	return disp == 4 || (disp == 1 && m->disp == (int8_t)m->disp) || (!disp && !m->disp);
}

/* Is the record after an entry with ETCH_IMV_MORE well formed? etch_imv_valid() must hold for `e`. */
static inline int etch_more_valid(const struct etch_imv *e, const struct etch_imv_more *m)
{
	return m->form == ETCH_FORM_MORE && !(m->shape & 0x88) && m->flags == (e->flags & ETCH_IMV_GOT) &&
	       etch_more_fits(e, m);
}

/*
 * Is an entry of __imv well formed? The reader checks whether its references are valid. An empty
 * entry is all zero. The tool and the library share this function.
 */
static inline int etch_imv_valid(const struct etch_imv *e)
{
	unsigned mode = etch_imv_addressing(e), more = e->flags & ETCH_IMV_MORE;

	if (e->form == ETCH_FORM_NONE)
		return !e->site && !e->obj && !e->regs && !e->shape && !e->flags;
	if (!etch_form_size(e->form) || (e->flags & ~ETCH_IMV_FLAGS) || (e->shape & 0x80))
		return 0;
	if (!more != (!etch_form_is_flags(e->form) && mode != ETCH_ADDR_DISP))
		return 0;
	/* At least an opcode, a ModRM byte and four bytes of displacement. The displacement of a compare with a constant
	 * may be shorter. */
	if (etch_imv_len(e) < (etch_form_is_flags(e->form) ? 3 : 6))
		return 0;
	if (mode < ETCH_ADDR_BASE && etch_imv_base(e))
		return 0;
	/* With a GOT slot the address is in a register, and the value is unknown before the program is loaded. */
	return !(e->flags & ETCH_IMV_GOT) || (mode >= ETCH_ADDR_BASE && !(e->flags & ETCH_IMV_BAKED));
}

/* Is a record of __etch_obj well formed? `linked`: ETCH_MODULE_LINKED is set. */
static inline int etch_obj_valid(const struct etch_obj *o, int linked)
{
	if (o->kind == ETCH_OBJ_NONE)
		return !o->addr && !o->size && !o->ref && !o->flags && !o->more;
	if ((o->more & ~ETCH_OBJ_MORE) || ((o->more & ~ETCH_OBJ_DENSE) && !linked) || o->kind > ETCH_OBJ_ESCAPE)
		return 0;
	if (o->kind != ETCH_OBJ_OBJECT)
		return !(o->flags & ~ETCH_OBJ_GOT) && !(o->more & ~ETCH_OBJ_FIELD) &&
		       (!o->more || ((o->flags & ETCH_OBJ_GOT) && ETCH_FACT_COUNT(o->size)));
	return !(o->flags & ~(ETCH_OBJ_STORED | ETCH_OBJ_ESCAPED | ETCH_OBJ_ARMED | ETCH_OBJ_SHARED | ETCH_OBJ_OPEN |
	                      ETCH_OBJ_PART | ETCH_OBJ_VALUE)) &&
	       (linked || !(o->flags & ETCH_OBJ_ARMED));
}

static inline int etch_module_valid(const struct etch_module *m)
{
	return m->magic == ETCH_MODULE_MAGIC && m->version == ETCH_MODULE_VERSION && m->size == sizeof(*m) &&
	       !(m->flags & ~ETCH_MODULE_FLAGS);
}

#ifdef __cplusplus
}
#endif
#endif
