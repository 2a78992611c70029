// SPDX-License-Identifier: MIT
/*
 * Both encoders of etch/forms.h, for every form, register, addressing and REX
 * presence: what they write is decoded by Zydis and by Capstone, which must
 * agree with each other and with the table below (written from the comments of
 * enum etch_form, not from etch_form_info), and is executed: the load and the
 * immediate must leave the same registers, flags and stack. Compares with a
 * constant are in compares.c.
 *
 * With `near` the code lies where no mov holds an address of it: mov64 becomes lea for such values.
 *
 * usage: encoding decode|execute|near|refuse SEED
 */
#define _GNU_SOURCE
#include <etch/forms.h>

#include <Zydis/Zydis.h>
#include <capstone/capstone.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Imm: 'k' any value fits, 's' as sign-extended imm32, 'm' also as zero-extended imm32. */
static const struct spec {
	unsigned form, mem, width;
	int sign;
	ZydisMnemonic load_z, imm_z;
	unsigned load_c, imm_c;
	char fit;
} specs[] = {
#define MOV(f, m, w, s, l, fit) {f, m, w, s, ZYDIS_MNEMONIC_##l, ZYDIS_MNEMONIC_MOV, X86_INS_##l, X86_INS_MOV, fit}
	MOV(1, 1, 1, 0, MOV, 'k'), MOV(2, 2, 2, 0, MOV, 'k'), MOV(3, 4, 4, 0, MOV, 'k'),
	MOV(4, 8, 8, 0, MOV, 'm'),
	MOV(5, 1, 2, 0, MOVZX, 'k'), MOV(6, 1, 4, 0, MOVZX, 'k'), MOV(7, 1, 8, 0, MOVZX, 'k'),
	MOV(8, 2, 4, 0, MOVZX, 'k'), MOV(9, 2, 8, 0, MOVZX, 'k'),
	MOV(10, 1, 2, 1, MOVSX, 'k'), MOV(11, 1, 4, 1, MOVSX, 'k'), MOV(12, 1, 8, 1, MOVSX, 'k'),
	MOV(13, 2, 4, 1, MOVSX, 'k'), MOV(14, 2, 8, 1, MOVSX, 'k'),
	MOV(15, 4, 8, 1, MOVSXD, 'k'),
#define OP(f, w, op, fit) {f, w, w, 0, ZYDIS_MNEMONIC_##op, ZYDIS_MNEMONIC_##op, X86_INS_##op, X86_INS_##op, fit}
#define OPS(f, op) OP(f, 1, op, 'k'), OP(f + 1, 2, op, 'k'), OP(f + 2, 4, op, 'k'), OP(f + 3, 8, op, 's')
	OPS(16, ADD), OPS(20, OR), OPS(24, ADC), OPS(28, SBB),
	OPS(32, AND), OPS(36, SUB), OPS(40, XOR), OPS(44, CMP),
	OPS(48, TEST),
	OP(53, 2, IMUL, 'k'), OP(54, 4, IMUL, 'k'), OP(55, 8, IMUL, 's'),
	OP(56, 8, PUSH, 's'),
	OPS(66, CMP), /* memory first: only equality is the same in both orders */
};
#define SPECS (sizeof(specs) / sizeof(*specs))

static const char *const names[4][16] = {
	{"al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil",
	 "r8b", "r9b", "r10b", "r11b", "r12b", "r13b", "r14b", "r15b"},
	{"ax", "cx", "dx", "bx", "sp", "bp", "si", "di",
	 "r8w", "r9w", "r10w", "r11w", "r12w", "r13w", "r14w", "r15w"},
	{"eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi",
	 "r8d", "r9d", "r10d", "r11d", "r12d", "r13d", "r14d", "r15d"},
	{"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
	 "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"},
};
static const char *const high[4] = {"ah", "ch", "dh", "bh"};

static const char *reg_name(unsigned reg, unsigned width, unsigned rex)
{
	if (width == 1 && !rex && reg >= 4 && reg < 8)
		return high[reg - 4];
	return names[__builtin_ctz(width)][reg]; /* 1, 2, 4 or 8 bytes */
}

static unsigned long failures, entries, checked, misfits;

static void fail(const struct etch_imv *e, const uint8_t *code, unsigned len, const char *what)
{
	if (++failures > 40)
		return;
	printf("FAIL form %u reg %u base %u addressing %u rex %u length %u:", e->form, etch_imv_reg(e),
	       etch_imv_base(e), etch_imv_addressing(e), etch_imv_rex(e), etch_imv_len(e));
	for (unsigned i = 0; i < len; i++)
		printf(" %02x", code[i]);
	printf(": %s\n", what);
}

static uint64_t seed;
static uint64_t rnd(void) /* xorshift64* */
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return seed * 0x2545f4914f6cdd1dull;
}

/* ---- one low page of code, one of data, one of stack --------------------- */

/* Low, so that disp32 reaches the data in all three ways of addressing. */
#define LOW  0x10000000ul
#define CODE code_at
#define DATA 0x10010000ul
#define STACK 0x10020000ul
#define SLOT_END (CODE + 0x200)

static uint64_t code_at = LOW;

struct cpu {
	uint64_t reg[16];
	uint64_t flags;
};
struct data {
	struct cpu in, out;
	uint64_t saved_rsp;
	uint64_t pad[8];
	uint8_t object[16];
};
#define D ((volatile struct data *)DATA)
#define OBJECT (DATA + offsetof(struct data, object))

static void arena_map(void)
{
	int prot = PROT_READ | PROT_WRITE | PROT_EXEC, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;

	if (mmap((void *)LOW, 0x30000, prot, flags, -1, 0) == MAP_FAILED ||
	    (CODE != LOW && mmap((void *)CODE, 0x1000, prot, flags, -1, 0) == MAP_FAILED)) {
		perror("mmap");
		exit(2);
	}
}

/* mov between register and memory at an absolute address. */
static uint8_t *emit_mov(uint8_t *p, unsigned reg, uint64_t at, int store)
{
	uint32_t a = (uint32_t)at;

	*p++ = (uint8_t)(0x48 | (reg & 8) >> 1);
	*p++ = store ? 0x89 : 0x8b;
	*p++ = (uint8_t)((reg & 7) << 3 | 4);
	*p++ = 0x25;
	memcpy(p, &a, 4);
	return p + 4;
}

static uint8_t *emit(uint8_t *p, const void *bytes, size_t n)
{
	memcpy(p, bytes, n);
	return p + n;
}

/* The frame around the site: in.flags and in.reg are loaded, the site runs (any
 * register may be its destination, rsp too, for nothing here needs a stack until
 * it has been restored), out is filled. */
static void frame_write(void)
{
	uint8_t *p = (uint8_t *)CODE;
	uint32_t in = (uint32_t)(DATA + offsetof(struct data, in.flags));
	uint32_t out = (uint32_t)(DATA + offsetof(struct data, out.flags));

	p = emit(p, "\x53\x55\x41\x54\x41\x55\x41\x56\x41\x57", 10); /* push rbx rbp r12-r15 */
	p = emit_mov(p, 4, DATA + offsetof(struct data, saved_rsp), 1);
	p = emit(emit(p, "\xff\x34\x25", 3), &in, 4); /* push in.flags */
	*p++ = 0x9d;                                  /* popfq */
	for (unsigned r = 0; r < 16; r++)
		p = emit_mov(p, r, DATA + offsetof(struct data, in.reg) + 8 * r, 0);
	memset(p, 0x90, (size_t)((uint8_t *)SLOT_END - p));
	p = (uint8_t *)SLOT_END;
	for (unsigned r = 0; r < 16; r++)
		p = emit_mov(p, r, DATA + offsetof(struct data, out.reg) + 8 * r, 1);
	p = emit_mov(p, 4, DATA + offsetof(struct data, saved_rsp), 0);
	*p++ = 0x9c;                                  /* pushfq */
	p = emit(emit(p, "\x8f\x04\x25", 3), &out, 4); /* pop out.flags */
	p = emit(p, "\xfc\x41\x5f\x41\x5e\x41\x5d\x41\x5c\x5d\x5b\xc3", 12); /* cld; pops; ret */
}

static void site_run(const uint8_t *code, unsigned len)
{
	memset((void *)(SLOT_END - 16), 0x90, 16);
	memcpy((void *)(SLOT_END - len), code, len);
	__asm__ __volatile__("" ::: "memory");
	((void (*)(void))CODE)();
	__asm__ __volatile__("" ::: "memory");
}

/* ---- entries and values -------------------------------------------------- */

static int entry_make(struct etch_imv *e, const struct spec *s, unsigned reg, unsigned mode,
                      unsigned base, unsigned rex, uint8_t load[16])
{
	unsigned len;

	memset(e, 0, sizeof(*e));
	e->form = (uint8_t)s->form;
	e->regs = (uint8_t)(reg | base << 4);
	e->shape = (uint8_t)(mode << 4 | rex << 6);
	len = etch_form_load(e, SLOT_END - 16, OBJECT, load);
	if (!len)
		return 0;
	e->shape |= (uint8_t)len;
	/* Again, where it will lie: the displacement depends on it, the length never. */
	if (etch_form_load(e, SLOT_END - len, OBJECT, load) != len)
		fail(e, load, len, "length depends on the address");
	return 1;
}

/* The REX prefix that the load cannot do without. */
static unsigned rex_needed(const struct spec *s, unsigned reg, unsigned mode, unsigned base)
{
	unsigned push = s->form == ETCH_FORM_PUSH64;

	return (s->width == 8 && !push) || reg >= 8 || (mode == ETCH_ADDR_BASE && base >= 8);
}

static uint64_t mask(unsigned bytes) { return bytes == 8 ? ~0ull : (1ull << 8 * bytes) - 1; }

/* The value as the operand of the instruction sees it, extended from mem to width. */
static uint64_t value_extend(const struct spec *s, uint64_t v)
{
	v &= mask(s->mem);
	if (s->sign && v >> (8 * s->mem - 1))
		v |= ~mask(s->mem);
	return v & mask(s->width);
}

/* Does lea reach the value, and no mov hold it? */
static int value_is_near(const struct spec *s, uint64_t v)
{
	int64_t off = (int64_t)(v - SLOT_END);

	return s->fit == 'm' && off >= INT32_MIN && off <= INT32_MAX && v + 0x80000000u >= 0x180000000u;
}

static int value_fits(const struct spec *s, uint64_t v)
{
	int64_t x = (int64_t)v;

	if (value_is_near(s, v))
		return 1;

	switch (s->fit) {
	case 's': return x >= INT32_MIN && x <= INT32_MAX;
	case 'm': return x >= INT32_MIN && x <= (int64_t)UINT32_MAX;
	default: return 1;
	}
}

static const uint64_t extremes[] = {
	0, 1, 2, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffffff, 0x80000000,
	0x80000001, 0xfffffffe, 0xffffffff, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000,
	0xffffffff00000000, 0xffffffff7fffffff, 0xffffffff80000000, 0xffffffffffffffff,
	0xffffffffffffff80, 0xaaaaaaaaaaaaaaaa, 0x5555555555555555,
};
#define EXTREMES (sizeof(extremes) / sizeof(*extremes))

static uint64_t value_pick(unsigned i)
{
	if (i < EXTREMES)
		return extremes[i];
	if (CODE != LOW && rnd() % 4) { /* just in reach, just out of it, anywhere near */
		uint64_t off[4] = {INT32_MAX, (uint64_t)INT32_MIN, (uint64_t)(int32_t)rnd(), (uint64_t)((int64_t)rnd() >> 40)};

		return SLOT_END + off[rnd() % 4] + (rnd() % 3 - 1);
	}
	/* Random widths, so that those that fit 32 bits are not rare. */
	return (uint64_t)((int64_t)rnd() >> (rnd() & 63));
}

/* ---- decode -------------------------------------------------------------- */

static ZydisDecoder zydis;
static csh capstone;

struct decoded {
	unsigned length, mnemonic, operands;
	char reg[2][8];   /* leading register operands, in order of appearance */
	unsigned regs;
	int has_mem;
	unsigned mem_size;
	char base[8];     /* "" if none */
	int has_index;
	int64_t disp;
	int has_imm;
	int64_t imm;
};

static int decode_zydis(const uint8_t *code, unsigned len, struct decoded *d)
{
	ZydisDecodedInstruction in;
	ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];

	memset(d, 0, sizeof(*d));
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&zydis, code, len, &in, op)))
		return 0;
	d->length = in.length;
	d->mnemonic = in.mnemonic;
	d->operands = in.operand_count_visible;
	for (unsigned i = 0; i < in.operand_count_visible; i++) {
		if (op[i].type == ZYDIS_OPERAND_TYPE_REGISTER && d->regs < 2) {
			strcpy(d->reg[d->regs++], ZydisRegisterGetString(op[i].reg.value));
		} else if (op[i].type == ZYDIS_OPERAND_TYPE_MEMORY) {
			d->has_mem = 1;
			d->mem_size = op[i].size / 8;
			if (op[i].mem.base != ZYDIS_REGISTER_NONE)
				strcpy(d->base, ZydisRegisterGetString(op[i].mem.base));
			d->has_index = op[i].mem.index != ZYDIS_REGISTER_NONE;
			d->disp = op[i].mem.disp.value;
		} else if (op[i].type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
			d->has_imm = 1;
			d->imm = op[i].imm.value.s;
		}
	}
	return 1;
}

static int decode_capstone(const uint8_t *code, unsigned len, struct decoded *d)
{
	cs_insn *in;
	cs_x86 *x;

	memset(d, 0, sizeof(*d));
	if (cs_disasm(capstone, code, len, 0, 1, &in) != 1)
		return 0;
	x = &in->detail->x86;
	d->length = in->size;
	d->mnemonic = in->id;
	d->operands = x->op_count;
	for (unsigned i = 0; i < x->op_count; i++) {
		cs_x86_op *op = &x->operands[i];

		if (op->type == X86_OP_REG && d->regs < 2) {
			strcpy(d->reg[d->regs++], cs_reg_name(capstone, op->reg));
		} else if (op->type == X86_OP_MEM) {
			d->has_mem = 1;
			d->mem_size = op->size;
			if (op->mem.base != X86_REG_INVALID)
				strcpy(d->base, cs_reg_name(capstone, op->mem.base));
			d->has_index = op->mem.index != X86_REG_INVALID;
			d->disp = op->mem.disp;
		} else if (op->type == X86_OP_IMM) {
			d->has_imm = 1;
			d->imm = op->imm;
		}
	}
	cs_free(in, 1);
	return 1;
}

static const char *check_load(const struct spec *s, const struct etch_imv *e, const struct decoded *d,
                              unsigned mnemonic, unsigned rex)
{
	unsigned push = s->form == ETCH_FORM_PUSH64, mode = etch_imv_addressing(e);
	const char *base = names[3][etch_imv_base(e)];
	int64_t disp = 0;

	if (mode == ETCH_ADDR_RIP) {
		base = "rip";
		disp = (int64_t)(OBJECT - SLOT_END);
	} else if (mode == ETCH_ADDR_ABS) {
		base = "";
		disp = (int64_t)OBJECT;
	}
	if (d->length != etch_imv_len(e))
		return "load: length";
	if (d->mnemonic != mnemonic)
		return "load: mnemonic";
	if (d->operands != (push ? 1 : 2) || d->regs != !push || d->has_imm || !d->has_mem || d->has_index)
		return "load: operands";
	if (!push && strcmp(d->reg[0], reg_name(etch_imv_reg(e), s->width, rex)))
		return "load: destination";
	if (d->mem_size != s->mem)
		return "load: memory size";
	if (strcmp(d->base, base) || d->disp != disp)
		return "load: address";
	return NULL;
}

static const char *check_imm(const struct spec *s, const struct etch_imv *e, const struct decoded *d,
                             unsigned mnemonic, unsigned rex, uint64_t value)
{
	unsigned push = s->form == ETCH_FORM_PUSH64, imul = mnemonic == (unsigned)X86_INS_IMUL ||
	                                                    mnemonic == (unsigned)ZYDIS_MNEMONIC_IMUL;
	unsigned width = s->width;
	uint64_t v = value_extend(s, value);

	if (d->length != etch_imv_len(e))
		return "immediate: length";
	if (value_is_near(s, v)) {
		if (d->mnemonic != (mnemonic == s->imm_z ? (unsigned)ZYDIS_MNEMONIC_LEA : (unsigned)X86_INS_LEA))
			return "lea: mnemonic";
		return strcmp(d->reg[0], names[3][etch_imv_reg(e)]) || strcmp(d->base, "rip") || d->has_index ||
		               SLOT_END + (uint64_t)d->disp != v
		           ? "lea: operands"
		           : NULL;
	}
	if (d->mnemonic != mnemonic)
		return "immediate: mnemonic";
	if (d->has_mem || !d->has_imm)
		return "immediate: operands";
	/* A 64-bit mov of a value in [2^31, 2^32) is a 32-bit mov, which clears the rest. */
	if (s->load_z != s->imm_z || s->fit == 'm')
		if (width == 8 && v > INT32_MAX && v <= UINT32_MAX)
			width = 4;
	imul = s->form >= ETCH_FORM_IMUL16 && s->form <= ETCH_FORM_IMUL64;
	if (d->operands != 2u - push + imul || d->regs != 1u - push + imul)
		return "immediate: operand count";
	for (unsigned i = 0; i < d->regs; i++)
		if (strcmp(d->reg[i], reg_name(etch_imv_reg(e), width, rex)))
			return "immediate: register";
	if (((uint64_t)d->imm ^ v) & mask(width))
		return "immediate: value";
	return NULL;
}

static void entry_decode(const struct spec *s, const struct etch_imv *e, const uint8_t *load)
{
	/* Whether REX is there is read from the bytes, not from the entry: legacy
	 * prefixes come first, REX last (SDM vol. 2, 2.2.1). */
	unsigned rex = (load[load[0] == 0x66] & 0xf0) == 0x40, len = etch_imv_len(e);
	struct decoded z, c;
	uint8_t imm[16], bytes[8];
	const char *why;

	if (!decode_zydis(load, len, &z) || !decode_capstone(load, len, &c)) {
		fail(e, load, len, "load: not decoded");
		return;
	}
	if ((why = check_load(s, e, &z, s->load_z, rex)))
		fail(e, load, len, why);
	if ((why = check_load(s, e, &c, s->load_c, rex)))
		fail(e, load, len, why);
	if (memcmp(z.reg, c.reg, sizeof(z.reg)) || strcmp(z.base, c.base) || z.disp != c.disp ||
	    z.mem_size != c.mem_size)
		fail(e, load, len, "load: Zydis and Capstone disagree");
	for (unsigned i = 0; i < EXTREMES + 6; i++) {
		uint64_t v = value_pick(i);
		unsigned n;

		memcpy(bytes, &v, 8);
		memset(imm, 0xcc, sizeof(imm));
		n = etch_form_imm(e, SLOT_END - len, bytes, imm);
		if (!value_fits(s, v)) {
			misfits++;
			if (n)
				fail(e, imm, n, "a value that does not fit was accepted");
			continue;
		}
		checked++;
		if (n != len) {
			fail(e, imm, n, "immediate: length is not that of the load");
			continue;
		}
		for (unsigned k = n; k < 16; k++)
			if (imm[k] != 0xcc)
				fail(e, imm, 16, "immediate: bytes written beyond its length");
		if (!decode_zydis(imm, len, &z) || !decode_capstone(imm, len, &c)) {
			fail(e, imm, len, "immediate: not decoded");
			continue;
		}
		if ((why = check_imm(s, e, &z, s->imm_z, rex, v)))
			fail(e, imm, len, why);
		if ((why = check_imm(s, e, &c, s->imm_c, rex, v)))
			fail(e, imm, len, why);
		if (memcmp(z.reg, c.reg, sizeof(z.reg)))
			fail(e, imm, len, "immediate: Zydis and Capstone disagree");
	}
}

/* ---- execute ------------------------------------------------------------- */

#define CF 0x001u
#define PF 0x004u
#define AF 0x010u
#define ZF 0x040u
#define SF 0x080u
#define DF 0x400u
#define OF 0x800u

/* Flags that the instruction leaves undefined (SDM vol. 2: IMUL; AND, OR, XOR and
 * TEST leave AF so). */
static uint64_t flags_undefined(const struct spec *s)
{
	if (s->form >= ETCH_FORM_CMPR8)
		return CF | PF | AF | SF | OF;
	switch (s->load_z) {
	case ZYDIS_MNEMONIC_IMUL: return SF | ZF | AF | PF;
	case ZYDIS_MNEMONIC_AND: case ZYDIS_MNEMONIC_OR:
	case ZYDIS_MNEMONIC_XOR: case ZYDIS_MNEMONIC_TEST: return AF;
	default: return 0;
	}
}

static void entry_execute(const struct spec *s, const struct etch_imv *e, const uint8_t *load, unsigned rounds)
{
	unsigned len = etch_imv_len(e);
	struct cpu want;
	volatile uint64_t *slot = (volatile uint64_t *)(STACK + 0x800); /* where a push lands */
	uint64_t pushed;
	uint8_t imm[16], bytes[8];

	for (unsigned i = 0; i < rounds; i++) {
		uint64_t v = value_pick((unsigned)rnd() % (2 * EXTREMES));
		unsigned n;

		for (unsigned k = 0; k < 16; k++) /* what lies after the value must not matter */
			D->object[k] = (uint8_t)rnd();
		memcpy(bytes, &v, 8);
		memcpy((void *)OBJECT, bytes, s->mem);
		n = etch_form_imm(e, SLOT_END - len, bytes, imm);
		if (n != (value_fits(s, v) ? len : 0)) {
			fail(e, imm, n, "length or refusal of the immediate");
			continue;
		}
		if (!n) {
			misfits++;
			continue;
		}
		for (unsigned r = 0; r < 16; r++)
			D->in.reg[r] = value_pick((unsigned)rnd() % (2 * EXTREMES));
		D->in.reg[4] = STACK + 0x808;
		if (etch_imv_addressing(e) == ETCH_ADDR_BASE)
			D->in.reg[etch_imv_base(e)] = OBJECT;
		D->in.flags = 0x202 | (rnd() & (CF | PF | AF | ZF | SF | DF | OF));
		*slot = rnd();
		site_run(load, len);
		memcpy(&want, (void *)&D->out, sizeof(want));
		pushed = *slot;
		*slot = ~pushed;
		site_run(imm, len);
		checked++;
		/* Where base and destination are one register, a narrow destination keeps
		 * part of the address: the same in both forms, so nothing to mask. */
		if (memcmp(want.reg, (void *)D->out.reg, sizeof(want.reg)))
			fail(e, imm, len, "registers differ after load and immediate");
		if ((want.flags ^ D->out.flags) & ~flags_undefined(s))
			fail(e, imm, len, "flags differ after load and immediate");
		if (s->form == ETCH_FORM_PUSH64 && (pushed != *slot || pushed != v))
			fail(e, imm, len, "pushed words differ");
	}
}

/* ---- refuse -------------------------------------------------------------- */

static void refuse_all(void)
{
	struct etch_imv e = {0};
	uint8_t out[16], zero[8] = {0};

	/* Numbers that are no form. */
	for (unsigned form = 0; form < 256; form++) {
		const struct spec *s = NULL;

		for (unsigned i = 0; i < SPECS; i++)
			if (specs[i].form == form)
				s = &specs[i];
		if (etch_form_is_flags(form))
			continue;
		entries++;
		checked++;
		if (etch_form_size(form) != (s ? s->mem : 0)) {
			e.form = (uint8_t)form;
			fail(&e, out, 0, "etch_form_size");
		}
		if (s)
			continue;
		for (unsigned k = 0; k < 4096; k++) {
			e.form = (uint8_t)form;
			e.regs = (uint8_t)rnd();
			e.shape = (uint8_t)rnd();
			if (etch_form_load(&e, SLOT_END, OBJECT, out) || etch_form_imm(&e, SLOT_END, zero, out))
				fail(&e, out, 0, "a number that is no form was encoded");
		}
	}
	/* Objects out of reach, and just in reach. */
	for (unsigned i = 0; i < SPECS; i++) {
		uint64_t site = 0x7f0000000000ull, end;

		entry_make(&e, &specs[i], 0, ETCH_ADDR_RIP, 0, rex_needed(&specs[i], 0, 0, 0), out);
		end = site + etch_imv_len(&e);
		checked += 8;
		if (!etch_form_load(&e, site, end + INT32_MAX, out) ||
		    !etch_form_load(&e, site, end + (uint64_t)(int64_t)INT32_MIN, out))
			fail(&e, out, 16, "an object in reach was refused");
		if (etch_form_load(&e, site, end + INT32_MAX + 1ull, out) ||
		    etch_form_load(&e, site, end + (uint64_t)(int64_t)INT32_MIN - 1, out))
			fail(&e, out, 16, "an object out of reach was accepted");
		entry_make(&e, &specs[i], 0, ETCH_ADDR_ABS, 0, rex_needed(&specs[i], 0, 1, 0), out);
		if (!etch_form_load(&e, site, INT32_MAX, out) ||
		    !etch_form_load(&e, site, 0xffffffff80000000ull, out))
			fail(&e, out, 16, "an absolute address in reach was refused");
		if (etch_form_load(&e, site, 0x80000000ull, out) ||
		    etch_form_load(&e, site, 0xffffffff7fffffffull, out))
			fail(&e, out, 16, "an absolute address out of reach was accepted");
	}
	/* Bits that format.h defines as zero. */
	for (unsigned i = 0; i < SPECS; i++) {
		struct etch_imv bad;

		entry_make(&e, &specs[i], 0, ETCH_ADDR_RIP, 0, rex_needed(&specs[i], 0, 0, 0), out);
		for (unsigned bit = 0; bit < 5; bit++) {
			bad = e;
			bad.shape |= bit == 4 ? 0x80 : 0;
			bad.regs |= (uint8_t)(bit == 4 ? 0 : 0x10 << bit);
			checked++;
			if (etch_form_load(&bad, SLOT_END, OBJECT, out))
				fail(&bad, out, 0, "an entry with a reserved bit set was encoded");
		}
	}
	/* Any twelve bytes at all: either nothing, or one instruction that both decoders
	 * read with the length that was returned. An immediate only fills the length. */
	for (unsigned long k = 0; k < 1500000; k++) {
		uint8_t bytes[8];
		uint64_t v = value_pick((unsigned)rnd() % (2 * EXTREMES));
		struct decoded z, c;
		unsigned n;

		e.form = (uint8_t)(rnd() % 80);
		e.regs = (uint8_t)rnd();
		e.shape = (uint8_t)rnd();
		memcpy(bytes, &v, 8);
		entries++;
		memset(out, 0xcc, sizeof(out));
		n = etch_form_load(&e, SLOT_END, OBJECT, out);
		if (n) {
			checked++;
			if (n > 15 || !decode_zydis(out, n, &z) || !decode_capstone(out, n, &c) ||
			    z.length != n || c.length != n)
				fail(&e, out, n, "a load that the decoders do not read so");
		}
		memset(out, 0xcc, sizeof(out));
		n = etch_form_imm(&e, k % 2 ? 0x555500000000ull : 0, bytes, out);
		if (n) {
			checked++;
			if (n != etch_imv_len(&e) || !decode_zydis(out, n, &z) || !decode_capstone(out, n, &c) ||
			    z.length != n || c.length != n)
				fail(&e, out, n, "an immediate that the decoders do not read so");
		}
	}
}

int main(int argc, char **argv)
{
	struct etch_imv e;
	uint8_t load[16];

	if (argc != 3)
		return 2;
	seed = strtoull(argv[2], NULL, 0) | 1;
	ZydisDecoderInit(&zydis, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &capstone) || cs_option(capstone, CS_OPT_DETAIL, CS_OPT_ON))
		return 2;
	if (!strcmp(argv[1], "near"))
		code_at = 0x555500000000ul;
	arena_map();
	frame_write();
	if (!strcmp(argv[1], "refuse")) {
		refuse_all();
		goto done;
	}
	for (unsigned i = 0; i < SPECS; i++) {
		const struct spec *s = &specs[i];

		if (CODE != LOW && s->fit != 'm')
			continue;
		/* A load relative to rip does not reach from there. */
		for (unsigned reg = 0; reg < 16; reg++)
		for (unsigned mode = CODE != LOW; mode <= ETCH_ADDR_BASE; mode++)
		for (unsigned base = 0; base < (mode == ETCH_ADDR_BASE ? 16u : 1u); base++)
		for (unsigned rex = 0; rex < 2; rex++) {
			int ok = entry_make(&e, s, reg, mode, base, rex, load);
			int sp = mode == ETCH_ADDR_BASE && base == 4;
			int bad = sp || (s->form == ETCH_FORM_PUSH64 && reg);

			if (rex < rex_needed(s, reg, mode, base)) {
				/* The entry denies a prefix that its load must have. */
				if (ok)
					fail(&e, load, etch_imv_len(&e), "the REX bit of the entry is not that of the load");
				continue;
			}
			if (ok == bad) {
				fail(&e, load, etch_imv_len(&e), bad ? "a load that has no such form" : "refused");
				continue;
			}
			if (bad)
				continue;
			entries++;
			if (strcmp(argv[1], "execute"))
				entry_decode(s, &e, load);
			if (strcmp(argv[1], "decode"))
				entry_execute(s, &e, load, mode == ETCH_ADDR_BASE ? 24 : 160);
		}
	}
done:
	printf("%lu entries, %lu checks, %lu values that do not fit, %lu failures\n",
	       entries, checked, misfits, failures);
	return failures != 0;
}
