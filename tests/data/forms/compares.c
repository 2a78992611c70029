// SPDX-License-Identifier: MIT
/*
 * Compares and tests of memory with a constant (etch/forms.h): every form, way of addressing and constant, for each set
 * of flags that may be asked for. The load is decoded by Zydis and by Capstone and executed; what replaces it is
 * decoded by both, which must see no memory operand and no register written, and executed on many stack pointers: the
 * flags asked for must be those of the load, and nothing else may change.
 *
 * usage: compares all SEED
 */
#define _GNU_SOURCE
#include <etch/forms.h>

#include <Zydis/Zydis.h>
#include <capstone/capstone.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CODE 0x10000000ul
#define DATA 0x10010000ul
#define STACK 0x10020000ul /* one page of it */
#define SITE (CODE + 0x100)

#define CF 0x001u
#define ZF 0x040u
#define SF 0x080u
#define OF 0x800u

static unsigned long failures, entries, checked;
static ZydisDecoder zydis;
static csh capstone;
static uint64_t seed;

static uint64_t rnd(void)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return seed * 0x2545f4914f6cdd1dull;
}

static void fail(const struct etch_imv *e, const struct etch_imv_more *m, const uint8_t *code, unsigned len,
                 const char *what)
{
	if (++failures > 40)
		return;
	printf("FAIL form %u addressing %u base %u imm %d (%u bytes) disp %u bytes need %u length %u:", e->form,
	       etch_imv_addressing(e), etch_imv_base(e), m->imm, etch_more_imm_len(m), etch_more_disp_len(m), m->need,
	       etch_imv_len(e));
	for (unsigned i = 0; i < len; i++)
		printf(" %02x", code[i]);
	printf(": %s\n", what);
}

/* What stands around the site: rsp and one base register are set, the site runs, the flags are taken. */
struct state {
	uint64_t in_rsp, in_base, in_flags, out_flags, out_rsp, out_base, saved;
	uint8_t object[64];
};
#define S ((volatile struct state *)DATA)

static uint8_t *emit(uint8_t *p, const void *bytes, size_t n)
{
	memcpy(p, bytes, n);
	return p + n;
}

/* mov between a register and memory at an absolute address */
static uint8_t *emit_mov(uint8_t *p, unsigned reg, size_t field, int store)
{
	uint32_t at = (uint32_t)(DATA + field);

	*p++ = (uint8_t)(0x48 | (reg & 8) >> 1);
	*p++ = store ? 0x89 : 0x8b;
	*p++ = (uint8_t)((reg & 7) << 3 | 4);
	*p++ = 0x25;
	return emit(p, &at, 4);
}

static void site_run(const uint8_t *code, unsigned len, unsigned base)
{
	uint8_t *p = (uint8_t *)CODE;
	uint32_t in = (uint32_t)(DATA + offsetof(struct state, in_flags));
	uint32_t out = (uint32_t)(DATA + offsetof(struct state, out_flags));

	p = emit(p, "\x53\x55\x41\x54\x41\x55\x41\x56\x41\x57", 10); /* push rbx rbp r12-r15 */
	p = emit_mov(p, 4, offsetof(struct state, saved), 1);
	p = emit(emit(p, "\xff\x34\x25", 3), &in, 4); /* push in_flags; popfq */
	*p++ = 0x9d;
	p = emit_mov(p, base, offsetof(struct state, in_base), 0);
	p = emit_mov(p, 4, offsetof(struct state, in_rsp), 0);
	memset(p, 0x90, SITE - (uintptr_t)p);
	p = emit((uint8_t *)SITE, code, len);
	p = emit_mov(p, 4, offsetof(struct state, out_rsp), 1);
	p = emit_mov(p, base, offsetof(struct state, out_base), 1);
	p = emit_mov(p, 4, offsetof(struct state, saved), 0);
	*p++ = 0x9c;                                   /* pushfq; pop out_flags */
	p = emit(emit(p, "\x8f\x04\x25", 3), &out, 4);
	emit(p, "\x41\x5f\x41\x5e\x41\x5d\x41\x5c\x5d\x5b\xc3", 11);
	__asm__ __volatile__("" ::: "memory");
	((void (*)(void))CODE)();
	__asm__ __volatile__("" ::: "memory");
}

/* The flags that the processor has left, as what may be asked for. */
static unsigned outcome(void)
{
	uint64_t f = S->out_flags;

	return (f & ZF ? ETCH_NEED_EQUAL : 0) | (f & CF ? ETCH_NEED_BELOW : 0) |
	       (!(f & SF) != !(f & OF) ? ETCH_NEED_LESS : 0);
}

/* The load as this test knows it from the manual. */
static const char *check_load(const struct etch_imv *e, const struct etch_imv_more *m, const uint8_t *code, unsigned len)
{
	unsigned test = e->form >= 74, width = 8u << ((e->form - 70) & 3);
	ZydisDecodedInstruction z;
	ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
	cs_insn *c;
	const char *why = NULL;

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&zydis, code, len, &z, op)) || z.length != len)
		return "Zydis does not read the load";
	if (z.mnemonic != (test ? ZYDIS_MNEMONIC_TEST : ZYDIS_MNEMONIC_CMP) || op[0].type != ZYDIS_OPERAND_TYPE_MEMORY ||
	    op[0].size != width || op[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
		return "the load is another instruction";
	if ((uint64_t)(op[1].imm.value.s ^ m->imm) << (64 - 8 * etch_more_imm_len(m)))
		return "the load has another constant";
	if (cs_disasm(capstone, code, len, SITE, 1, &c) != 1)
		return "Capstone does not read the load";
	if (c->size != len || c->id != (test ? X86_INS_TEST : X86_INS_CMP) ||
	    c->detail->x86.operands[0].type != X86_OP_MEM || c->detail->x86.operands[0].size != width / 8)
		why = "Capstone reads the load differently";
	cs_free(c, 1);
	return why;
}

/* One instruction that reads no memory and writes no register. */
static const char *check_image(const uint8_t *code, unsigned len)
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
	cs_regs read, written;
	uint8_t reads, writes;
	const char *why = NULL;
	cs_insn *c;

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&zydis, code, len, &z, op)) || z.length != len)
		return "Zydis does not read it as one instruction";
	for (unsigned i = 0; i < z.operand_count; i++) {
		if (op[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
			return "it has a memory operand";
		if (op[i].type == ZYDIS_OPERAND_TYPE_REGISTER && (op[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
		    op[i].reg.value != ZYDIS_REGISTER_RFLAGS)
			return "it writes a register";
	}
	if (cs_disasm(capstone, code, len, SITE, 1, &c) != 1)
		return "Capstone does not read it";
	if (c->size != len || cs_regs_access(capstone, c, read, &reads, written, &writes))
		why = "Capstone reads another length";
	for (unsigned i = 0; !why && i < writes; i++)
		if (written[i] != X86_REG_EFLAGS)
			why = "Capstone sees a register written";
	cs_free(c, 1);
	return why;
}

static const uint64_t far[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0x7fffffff, 0x80000000, 0xffffffff,
                               0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff};

static uint64_t value_of(const struct etch_imv_more *m, unsigned i)
{
	if (i < 3)
		return (uint64_t)(int64_t)m->imm + i - 1;
	return i < 16 ? far[i - 3] : rnd();
}

/* Every value near the constant, and others; each at an even stack pointer, of any kind. */
static void values_run(const struct etch_imv *e, const struct etch_imv_more *m, const uint8_t *load)
{
	unsigned len = etch_imv_len(e), size = etch_form_size(e->form), want;

	for (unsigned i = 0; i < sizeof(far) / sizeof(*far) + 8; i++) {
		uint64_t v = value_of(m, i);
		uint64_t rsp = STACK + 0x800 + 2 * (rnd() % 256);
		uint8_t image[16], bytes[8];
		const char *why;

		memcpy(bytes, &v, 8);
		for (unsigned k = 0; k < 24; k++)
			S->object[k] = (uint8_t)rnd();
		memcpy((void *)&S->object[8], bytes, size);
		S->in_rsp = i & 1 ? rsp : rnd() >> 17 & ~1ull;
		if (!S->in_rsp)
			S->in_rsp = 2;
		S->in_base = DATA + offsetof(struct state, object) + 8 - (uint64_t)(int64_t)m->disp;
		S->in_flags = 0x202 | (rnd() & (CF | ZF | SF | OF));
		site_run(load, len, etch_imv_base(e));
		want = outcome() & m->need;
		if (etch_site_imm(e, m, 0, bytes, image) != len) {
			fail(e, m, image, 0, "no instruction");
			continue;
		}
		if ((why = check_image(image, len)))
			fail(e, m, image, len, why);
		site_run(image, len, etch_imv_base(e));
		checked++;
		if ((outcome() & m->need) != want)
			fail(e, m, image, len, "the flags differ");
		if (S->out_rsp != S->in_rsp || S->out_base != S->in_base)
			fail(e, m, image, len, "a register changed");
	}
}

static void entry_run(struct etch_imv e, struct etch_imv_more m)
{
	static const uint8_t needs[] = {0, 1, 2, 3, 4, 5};
	uint64_t object = DATA + offsetof(struct state, object) + 8;
	uint8_t load[16];
	const char *why;
	unsigned len = etch_site_load(&e, &m, SITE, object, load);

	if (!len)
		return; /* a base without a displacement that the encoding does not have, or no REX for it */
	e.shape |= (uint8_t)len;
	if ((why = check_load(&e, &m, load, len)))
		fail(&e, &m, load, len, why);
	for (unsigned k = 0; k < sizeof(needs); k++) {
		m.need = needs[k];
		entries++;
		if (len == 3 && m.need > 1) { /* too short for an order */
			if (etch_imv_valid(&e) && etch_more_valid(&e, &m))
				fail(&e, &m, load, len, "too short, but valid");
			continue;
		}
		if (!etch_imv_valid(&e) || !etch_more_valid(&e, &m))
			fail(&e, &m, load, len, "an entry that is not valid");
		values_run(&e, &m, load);
	}
	for (m.need = 6; m.need <= 8; m.need++)
		if (etch_more_valid(&e, &m))
			fail(&e, &m, load, len, "flags that no instruction gives, but valid");
}

static unsigned disp_length(int disp)
{
	if (!disp)
		return 0;
	return disp == (int8_t)disp ? 1 : 4;
}

/* Is the constant one of so many bytes, signed? */
static bool fits(int imm, unsigned bytes)
{
	if (bytes == 1)
		return imm == (int8_t)imm;
	return bytes != 2 || imm == (int16_t)imm;
}

int main(int argc, char **argv)
{
	static const int constants[] = {0, 1, -1, 2, 5, 0x7f, -0x80, 0x80, 0xff, 0x7fff, -0x8000, 0x12345678, 0x7fffffff,
	                                -0x7fffffff - 1};
	static const int disps[] = {0, 16, -128, 0x1234};

	if (argc != 3)
		return 2;
	seed = strtoull(argv[2], NULL, 0) | 1;
	ZydisDecoderInit(&zydis, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &capstone) || cs_option(capstone, CS_OPT_DETAIL, CS_OPT_ON))
		return 2;
	if (mmap((void *)CODE, 0x30000, PROT_READ | PROT_WRITE | PROT_EXEC,
	         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
		return 2;
	for (unsigned form = ETCH_FORM_CMPI8; form <= ETCH_FORM_TESTI64; form++)
		for (unsigned c = 0; c < sizeof(constants) / sizeof(*constants); c++)
			for (unsigned where = 0; where < 2 + 16 * 4; where++)
				for (unsigned variant = 0; variant < 4; variant++) {
					unsigned width = etch_form_size(form), full = width > 4 ? 4 : width, base = (where - 2) / 4;
					int disp = where < 2 ? 0 : disps[(where - 2) % 4];
					unsigned disp_len = where < 2 ? 0 : disp_length(disp);
					unsigned short_imm = variant & 1 && form < ETCH_FORM_TESTI8 && width > 1;
					struct etch_imv e = {.form = (uint8_t)form, .flags = ETCH_IMV_MORE};
					struct etch_imv_more m = {.imm = constants[c], .disp = disp, .form = ETCH_FORM_MORE};

					if ((variant & 1) != short_imm || (where >= 2 && (base == 4 || (c + base) % 5)))
						continue;
					if (!fits(m.imm, short_imm ? 1 : full))
						continue;
					e.shape = (uint8_t)((where < 2 ? where : ETCH_ADDR_DISP) << 4 | (variant & 2) << 5);
					e.regs = (uint8_t)(where < 2 ? 0 : base << 4);
					m.shape = (uint8_t)((short_imm ? 1 : full) | disp_len << 4);
					entry_run(e, m);
				}
	printf("%lu entries, %lu checks, %lu failures\n", entries, checked, failures);
	return failures != 0;
}
