// SPDX-License-Identifier: MIT
/*
 * The encoders of etch/pv_forms.h, for every form, addressing, register, REX and
 * notrack presence, displacement and length, and every kind of target: what they
 * write is decoded by Zydis and by Capstone, and executed beside the indirect form.
 * What is expected is said here from the comments of that header, and once more by
 * test_pv_encoding.py, which shows `list` to objdump.
 *
 * usage: encoding decode | execute | tiny | list BYTES    (list: one line an image)
 */
#define _GNU_SOURCE
#include <etch/pv_forms.h>

#include <Zydis/Zydis.h>
#include <capstone/capstone.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char *const names[16] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                      "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"};

static unsigned long failures, entries, checked;

static void fail(const struct etch_imv *e, const uint8_t *code, unsigned len, const char *what)
{
	if (++failures > 40)
		return;
	printf("FAIL form %u reg %u disp %d addressing %u rex %u notrack %u length %u:", e->form, etch_pv_reg(e),
	       etch_pv_disp(e), etch_imv_addressing(e), etch_imv_rex(e), e->shape >> 7, etch_imv_len(e));
	for (unsigned i = 0; i < len; i++)
		printf(" %02x", code[i]);
	printf(": %s\n", what);
}

/* ---- low pages of code and data, so that disp32 reaches all in every way ---- */

#define CODE 0x10000000ul
#define SITE (CODE + 0x400)
#define CALLEES (CODE + 0x1000)
#define DATA 0x10010000ul
#define SLOT (DATA + 0x800) /* the function pointer */
#define RETURN (DATA + 0x7f8) /* where the callee notes its return address */

struct data {
	uint64_t in[16], out[16], rsp; /* below DATA + 0x200, where memory for (%rdi) is */
};
#define D ((volatile struct data *)DATA)

/* What stands in a slot. `code` is the function, without its ret. */
struct target {
	const char *name;
	unsigned len, body, one; /* body: the code may stand in the call's place */
	uint8_t code[24];
	uint64_t at;
};
static struct target targets[] = {
	{"null", 0, 0, 0, {0}, 0},
	/* notes its return address; lea 0x4321(%rdi),%rax; xor %rsi,%rax */
	{"function", 20, 0, 0, "\x58\x50\x48\x89\x04\x25\xf8\x07\x01\x10\x48\x8d\x87\x21\x43\x00\x00\x48\x31\xf0", 0},
	{"nop", 0, 1, 1, {0}, 0},
	{"1", 1, 1, 1, "\xf9", 0},                                     /* stc */
	{"2", 2, 1, 1, "\x89\xf8", 0},                                 /* mov %edi,%eax */
	{"2x", 2, 1, 1, "\x31\xc0", 0},                                /* xor %eax,%eax */
	{"3", 3, 1, 1, "\x48\x89\xf8", 0},                             /* mov %rdi,%rax */
	{"3s", 3, 1, 1, "\x48\x89\x37", 0},                            /* mov %rsi,(%rdi) */
	{"4", 4, 1, 1, "\x48\x8d\x04\x37", 0},                         /* lea (%rdi,%rsi),%rax */
	{"4c", 4, 1, 1, "\x48\x0f\x44\xc6", 0},                        /* cmove %rsi,%rax */
	{"5", 5, 1, 1, "\xb8\x78\x56\x34\x12", 0},                     /* mov $imm,%eax */
	{"5p", 5, 1, 1, "\xf3\x48\x0f\xb8\xc7", 0},                    /* popcnt %rdi,%rax */
	{"5v", 5, 1, 1, "\xc4\xe2\xf8\xf2\xc7", 0},                    /* andn %rdi,%rax,%rax */
	{"6", 6, 1, 1, "\x8b\x87\x10\x00\x00\x00", 0},                 /* mov 16(%rdi),%eax */
	{"7", 7, 1, 1, "\x48\xc7\xc0\x88\xff\xff\xff", 0},             /* mov $-120,%rax */
	{"8", 8, 1, 1, "\x48\x8b\x84\x27\x10\x00\x00\x00", 0},         /* mov 16(%rdi),%rax */
	{"9", 9, 1, 1, "\x2e\xc6\x84\x27\x18\x00\x00\x00\x34", 0},     /* cs movb $0x34,24(%rdi) */
	{"10", 10, 1, 1, "\x48\xb8\x01\x02\x03\x04\x05\x06\x07\x08", 0}, /* mov $imm64,%rax */
	{"2+2", 4, 1, 0, "\x89\xf8\xff\xc0", 0},
	{"3+3", 6, 1, 0, "\x48\x89\xf8\x48\xff\xc0", 0},
	{"3+2", 5, 1, 0, "\x48\x89\xf8\xff\xc0", 0},
	{"3+3+3", 9, 1, 0, "\x48\x89\xf8\x48\xff\xc0\x48\x01\xf0", 0},
	{"1+1", 2, 1, 0, "\xf8\xf9", 0},
	{"10+3+2", 15, 1, 0, "\x48\xb8\x01\x02\x03\x04\x05\x06\x07\x08\x48\x01\xf8\xff\xc0", 0},
};
#define TARGETS (sizeof(targets) / sizeof(*targets))

static void targets_lay_out(void)
{
	uint8_t *p = (uint8_t *)CALLEES;

	for (size_t i = 1; i < TARGETS; i++) {
		struct target *t = &targets[i];

		memcpy(p, t->code, t->len);
		p[t->len] = 0xc3;
		t->at = (uint64_t)p;
		p += 32;
	}
}

/* ---- entries --------------------------------------------------------------- */

typedef void entry_fn(const struct etch_imv *e, const uint8_t *load);

static uint64_t slot_of(const struct etch_imv *e) { (void)e; return SLOT; }

static int entry_make(struct etch_imv *e, unsigned form, unsigned mode, unsigned reg, unsigned rex, unsigned notrack,
                      int disp, unsigned len, uint8_t load[16])
{
	memset(e, 0, sizeof(*e));
	e->form = (uint8_t)form;
	e->shape = (uint8_t)(len | mode << 4 | rex << 6 | notrack << 7);
	return etch_pv_set(e, reg, disp) && etch_pv_valid(e) && etch_pv_load(e, SITE, slot_of(e), load) == len;
}

/* The lengths that an instruction with these fields can have; from the SDM, vol. 2,
 * tables 2-2 and 2-3, not from etch_pv_load(). Bit n: n bytes. */
static unsigned lengths(unsigned mode, unsigned reg, unsigned rex, unsigned notrack, int disp)
{
	unsigned n = 2 + rex + notrack, some = 0;

	if (reg >= 8 && !rex)
		return 0;
	if (mode == ETCH_ADDR_REG)
		return 1u << n;
	if (mode == ETCH_ADDR_RIP)
		return 1u << (n + 4);
	if (mode == ETCH_ADDR_ABS)
		return 1u << (n + 5);
	if (reg == 4 || reg == 12)
		n++;
	if (!disp && reg != 5 && reg != 13)
		some |= 1u << n;
	if (disp >= -128 && disp < 128)
		some |= 1u << (n + 1);
	return some | 1u << (n + 4);
}

static void entries_visit(entry_fn *visit)
{
	static const int disps[] = {0, 8, -8, 120, -128, 128, -136, 1016, -1024};

	for (unsigned form = ETCH_FORM_CALL; form <= ETCH_FORM_JMP; form++)
		for (unsigned mode = 0; mode < 4; mode++)
			for (unsigned reg = 0; reg < (mode < ETCH_ADDR_BASE ? 1 : 16); reg++)
				for (unsigned prefix = 0; prefix < 4; prefix++)
					for (size_t d = 0; d < (mode == ETCH_ADDR_BASE ? sizeof(disps) / sizeof(*disps) : 1); d++)
						for (unsigned len = 0; len < 16; len++) {
							struct etch_imv e;
							uint8_t load[16] = {0};
							unsigned can = lengths(mode, reg, prefix & 1, prefix >> 1, disps[d]);
							int made = entry_make(&e, form, mode, reg, prefix & 1, prefix >> 1,
							                      disps[d], len, load);

							/* More than nine bytes: nobody writes that. */
							if (made != (int)(can >> len & (len <= 9)))
								fail(&e, load, made ? len : 0, made ? "no such length" : "refused");
							if (!made)
								continue;
							entries++;
							visit(&e, load);
						}
}

/* ---- what is expected of an image ------------------------------------------ */

enum image_kind { STAYS, NOP, RET, ONE, MANY, CALL, JMP };

static enum image_kind image_expect(const struct etch_imv *e, uint64_t site, uint64_t target, const struct target *t)
{
	unsigned len = etch_imv_len(e), call = e->form == ETCH_FORM_CALL;
	int64_t rel = (int64_t)(target - site - len);

	if (!target)
		return STAYS;
	if (t->body && !t->len)
		return call ? NOP : RET;
	if (t->body && call && t->len <= len)
		return t->one ? ONE : MANY;
	if (len < 5 || rel < INT32_MIN || rel > INT32_MAX)
		return STAYS;
	return call ? CALL : JMP;
}

static const struct etch_pv_body *body_of(const struct target *t, struct etch_pv_body *b)
{
	b->len = (uint8_t)t->len;
	b->one = (uint8_t)t->one;
	if (t->body)
		memcpy(b->bytes, t->code, t->len);
	return t->body ? b : NULL;
}

/* ---- decode ---------------------------------------------------------------- */

static ZydisDecoder zydis;
static csh capstone;

struct decoded {
	unsigned length, mnemonic_z, mnemonic_c;
	int has_reg, has_mem, has_imm;
	const char *reg, *base;
	int64_t disp;
	uint64_t imm; /* of a direct call or jump: its target */
	char text[208];
};

/* Both decoders' view of the one instruction at `code`; null or what is wrong. */
static const char *decode(const uint8_t *code, unsigned len, uint64_t at, struct decoded *d)
{
	ZydisDecodedInstruction in;
	ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
	const char *wrong = NULL;
	cs_insn *c;
	cs_x86 *x;

	memset(d, 0, sizeof(*d));
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&zydis, code, len, &in, op)))
		return "Zydis cannot decode it";
	if (cs_disasm(capstone, code, len, at, 1, &c) != 1)
		return "Capstone cannot decode it";
	x = &c->detail->x86;
	d->length = in.length;
	d->mnemonic_z = in.mnemonic;
	d->mnemonic_c = c->id;
	snprintf(d->text, sizeof(d->text), "%s %s", c->mnemonic, c->op_str);
	if (strstr(d->text, "cs:")) /* no segment, in 64-bit mode */
		memmove(strstr(d->text, "cs:"), strstr(d->text, "cs:") + 3, strlen(strstr(d->text, "cs:") + 3) + 1);
	if (c->size != in.length)
		wrong = "Zydis and Capstone disagree on the length";
	else if (x->op_count != in.operand_count_visible && in.mnemonic != ZYDIS_MNEMONIC_NOP)
		wrong = "Zydis and Capstone disagree on the operands";
	else if (in.operand_count_visible == 1 && op[0].type == ZYDIS_OPERAND_TYPE_REGISTER) {
		d->has_reg = 1;
		d->reg = ZydisRegisterGetString(op[0].reg.value);
		if (x->operands[0].type != X86_OP_REG || strcmp(d->reg, cs_reg_name(capstone, x->operands[0].reg)))
			wrong = "Zydis and Capstone disagree on the register";
	} else if (in.operand_count_visible == 1 && op[0].type == ZYDIS_OPERAND_TYPE_MEMORY) {
		const x86_op_mem *m = &x->operands[0].mem;

		d->has_mem = 1;
		d->base = op[0].mem.base == ZYDIS_REGISTER_NONE ? "" : ZydisRegisterGetString(op[0].mem.base);
		d->disp = op[0].mem.disp.value;
		if (x->operands[0].type != X86_OP_MEM || m->disp != d->disp || op[0].size != 64 ||
		    (x->operands[0].size != 8 && d->mnemonic_z != ZYDIS_MNEMONIC_NOP) ||
		    op[0].mem.index != ZYDIS_REGISTER_NONE || m->index != X86_REG_INVALID ||
		    strcmp(d->base, m->base == X86_REG_INVALID ? "" : cs_reg_name(capstone, m->base)))
			wrong = d->mnemonic_z == ZYDIS_MNEMONIC_NOP ? NULL : "Zydis and Capstone disagree on the memory operand";
	} else if (in.operand_count_visible == 1 && op[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
		d->has_imm = 1;
		if (!op[0].imm.is_relative || !ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&in, &op[0], at, &d->imm)))
			wrong = "its operand is no target";
		else if (x->operands[0].type != X86_OP_IMM || (uint64_t)x->operands[0].imm != d->imm)
			wrong = "Zydis and Capstone disagree on the target";
	}
	cs_free(c, 1);
	return wrong;
}

static int is(const struct decoded *d, unsigned z, unsigned c) { return d->mnemonic_z == z && d->mnemonic_c == c; }

static const char *check_load(const struct etch_imv *e, const uint8_t *code, unsigned len)
{
	unsigned mode = etch_imv_addressing(e), call = e->form == ETCH_FORM_CALL;
	struct decoded d;
	const char *wrong = decode(code, len, SITE, &d);

	if (wrong)
		return wrong;
	if (d.length != len)
		return "another length";
	if (!(call ? is(&d, ZYDIS_MNEMONIC_CALL, X86_INS_CALL) : is(&d, ZYDIS_MNEMONIC_JMP, X86_INS_JMP)))
		return "another instruction";
	if ((code[0] == 0x3e) != !!(e->shape & ETCH_PV_NOTRACK))
		return "notrack";
	if (mode == ETCH_ADDR_REG)
		return d.has_reg && !strcmp(d.reg, names[etch_pv_reg(e)]) ? NULL : "another register";
	if (!d.has_mem)
		return "no memory operand";
	if (mode == ETCH_ADDR_BASE) {
		if (strcmp(d.base, names[etch_pv_reg(e)]))
			return "another base";
		return d.disp != etch_pv_disp(e) ? "another displacement" : NULL;
	}
	if (strcmp(d.base, mode == ETCH_ADDR_RIP ? "rip" : ""))
		return "another addressing";
	if (mode == ETCH_ADDR_RIP)
		d.disp += (int64_t)(SITE + len);
	return (uint64_t)d.disp == SLOT ? NULL : "another slot";
}

static const char *check_image(const struct target *t, enum image_kind kind, const uint8_t *code, unsigned len,
                               uint64_t site, uint64_t target, unsigned count)
{
	struct decoded d, b;
	const char *wrong = decode(code, len, site, &d);

	if (wrong)
		return wrong;
	if (count != (kind == MANY ? 2 : 1))
		return "another count";
	if (kind == MANY) { /* the sequence, and at most one nop */
		if (memcmp(code, t->code, t->len))
			return "another sequence";
		if (len == t->len)
			return NULL;
		wrong = decode(code + t->len, len - t->len, site + t->len, &d);
		if (wrong)
			return wrong;
		if (d.length != len - t->len)
			return "another length";
		return is(&d, ZYDIS_MNEMONIC_NOP, X86_INS_NOP) ? NULL : "no nop after it";
	}
	if (d.length != len)
		return "another length";
	if (kind == NOP)
		return is(&d, ZYDIS_MNEMONIC_NOP, X86_INS_NOP) ? NULL : "no nop";
	if (kind == RET)
		return is(&d, ZYDIS_MNEMONIC_RET, X86_INS_RET) && !d.has_imm ? NULL : "no return";
	if (kind == ONE) {
		wrong = decode(t->code, t->len, site, &b);
		if (wrong)
			return wrong;
		return d.mnemonic_z != b.mnemonic_z || strcmp(d.text, b.text) ? "another instruction" : NULL;
	}
	if (!(kind == CALL ? is(&d, ZYDIS_MNEMONIC_CALL, X86_INS_CALL) : is(&d, ZYDIS_MNEMONIC_JMP, X86_INS_JMP)))
		return "another instruction";
	return d.has_imm && d.imm == target ? NULL : "another target";
}

static FILE *bytes_out;

/* One image of one entry for one target; in `list` it is written out instead. */
static void image_check(const struct etch_imv *e, uint64_t site, uint64_t target, const struct target *t)
{
	static const char *const kinds[] = {"stays", "nop", "ret", "one", "many", "call", "jmp"};
	enum image_kind kind = image_expect(e, site, target, t);
	unsigned len = etch_imv_len(e), count = 9, n;
	struct etch_pv_body b;
	uint8_t code[16];
	const char *wrong;

	memset(code, 0xcc, sizeof(code));
	n = etch_pv_image(e, site, target, body_of(t, &b), code, &count);
	checked++;
	if (n != (kind == STAYS ? 0 : len))
		wrong = n ? "the indirect form should stay" : "refused";
	else
		wrong = n ? check_image(t, kind, code, n, site, target, count) : NULL;
	for (unsigned i = len; n && i < sizeof(code) && !wrong; i++)
		if (code[i] != 0xcc)
			wrong = "written behind its end";
	if (wrong)
		fail(e, code, n, wrong);
	if (bytes_out && n) {
		printf("%lx %u %s %lx %s\n", (unsigned long)ftell(bytes_out), n, kinds[kind],
		       (unsigned long)(target - site), t->name);
		fwrite(code, 1, n, bytes_out);
	}
}

static void entry_decode(const struct etch_imv *e, const uint8_t *load)
{
	unsigned len = etch_imv_len(e);
	const char *wrong = check_load(e, load, len);

	checked++;
	if (wrong)
		fail(e, load, len, wrong);
	if (bytes_out) {
		printf("%lx %u load %x %d %s\n", (unsigned long)ftell(bytes_out), len,
		       e->form | etch_imv_addressing(e) << 8 | (unsigned)(e->shape & 0xc0) << 8, etch_pv_disp(e),
		       names[etch_pv_reg(e)]);
		fwrite(load, 1, len, bytes_out);
	}
	for (size_t i = 0; i < TARGETS; i++)
		image_check(e, SITE, targets[i].at, &targets[i]);
	/* How far a direct call reaches, and what is farther. */
	for (int i = -2; i <= 2; i++) {
		image_check(e, SITE, SITE + len + (uint64_t)(int64_t)INT32_MAX + (uint64_t)(int64_t)i, &targets[1]);
		image_check(e, 0x555555550000, 0x555555550000 + len + (uint64_t)(int64_t)INT32_MIN + (uint64_t)(int64_t)i,
		            &targets[1]);
		image_check(e, SITE, SITE + (uint64_t)(int64_t)i, &targets[1]);
	}
	image_check(e, SITE, 0x7ffff7dd0000, &targets[1]);
	image_check(e, SITE, 0xffffffff81000000, &targets[1]);
}

/* ---- execute --------------------------------------------------------------- */

static uint8_t *emit(uint8_t *p, const void *bytes, size_t n)
{
	memcpy(p, bytes, n);
	return p + n;
}

/* mov between register and memory at an absolute address. */
static uint8_t *emit_mov(uint8_t *p, unsigned reg, uint64_t at, int store)
{
	uint32_t a = (uint32_t)at;

	*p++ = (uint8_t)(0x48 | (reg & 8) >> 1);
	*p++ = store ? 0x89 : 0x8b;
	*p++ = (uint8_t)((reg & 7) << 3 | 4);
	*p++ = 0x25;
	return emit(p, &a, 4);
}

/* Saves what C wants back, loads in[], and falls into SITE: a call site there. A jump
 * site lies after it and is called from SITE, so that it has somebody to return to. */
static uint64_t frame_write(int jump, unsigned len)
{
	uint8_t *p = (uint8_t *)CODE;
	uint64_t site = SITE, after;

	memset(p, 0x90, 0x1000);
	p = emit(p, "\x53\x55\x41\x54\x41\x55\x41\x56\x41\x57", 10); /* push rbx rbp r12-r15 */
	p = emit_mov(p, 4, (uint64_t)&D->rsp, 1);
	for (unsigned r = 0; r < 16; r++)
		if (r != 4)
			p = emit_mov(p, r, (uint64_t)&D->in[r], 0);
	p = (uint8_t *)SITE + (jump ? 5 : len);
	if (jump) {
		int32_t rel = 0x200 - 5;

		p = emit(emit((uint8_t *)SITE, "\xe8", 1), &rel, 4);
		site = SITE + 0x200;
	}
	after = (uint64_t)p;
	for (unsigned r = 0; r < 16; r++)
		p = emit_mov(p, r, (uint64_t)&D->out[r], 1);
	p = emit_mov(p, 4, (uint64_t)&D->rsp, 0);
	p = emit(p, "\xfc\x41\x5f\x41\x5e\x41\x5d\x41\x5c\x5d\x5b\xc3", 12); /* cld; pops; ret */
	D->in[4] = after; /* what the callee has to note */
	return site;
}

static void site_run(uint64_t site, const uint8_t *code, unsigned len, uint64_t target, uint64_t out[16],
                     uint64_t *returns)
{
	memcpy((void *)site, code, len);
	*(uint64_t *)SLOT = target;
	memset((void *)(DATA + 0x200), 0x11, 64); /* what (%rdi) is */
	*(uint64_t *)RETURN = 0;
	__asm__ __volatile__("" ::: "memory");
	((void (*)(void))CODE)();
	__asm__ __volatile__("" ::: "memory");
	memcpy(out, (void *)D->out, 16 * sizeof(*out));
	*returns = *(uint64_t *)RETURN;
}

static void entry_execute(const struct etch_imv *e, const uint8_t *load)
{
	unsigned mode = etch_imv_addressing(e), reg = etch_pv_reg(e), len = etch_imv_len(e), count;
	uint8_t again[16], code[16];
	struct etch_pv_body b;

	(void)load;
	if (mode >= ETCH_ADDR_BASE && reg == 4)
		return; /* the stack pointer is not ours to choose */
	for (size_t i = 1; i < TARGETS; i++) {
		const struct target *t = &targets[i];
		uint64_t site = frame_write(e->form == ETCH_FORM_JMP, len), was[16], is_now[16], back[2];
		uint8_t memory[64];

		for (unsigned r = 0; r < 16; r++)
			if (r != 4)
				D->in[r] = 0x0101010101010101ull * (r + 1);
		D->in[7] = DATA + 0x200;
		if (mode == ETCH_ADDR_BASE)
			D->in[reg] = SLOT - (uint64_t)(int64_t)etch_pv_disp(e);
		else if (mode == ETCH_ADDR_REG)
			D->in[reg] = t->at;
		if (etch_pv_load(e, site, SLOT, again) != len) {
			fail(e, again, len, "refused");
			continue;
		}
		if (!etch_pv_image(e, site, t->at, body_of(t, &b), code, &count))
			continue;
		if (mode == ETCH_ADDR_REG && reg == 7 && t->body)
			continue; /* (%rdi) is the function's own code */
		site_run(site, again, len, t->at, was, &back[0]);
		memcpy(memory, (void *)(DATA + 0x200), sizeof(memory));
		site_run(site, code, len, t->at, is_now, &back[1]);
		checked++;
		if (memcmp(was, is_now, sizeof(was)))
			fail(e, code, len, "other registers than the indirect form");
		else if (memcmp(memory, (void *)(DATA + 0x200), sizeof(memory)))
			fail(e, code, len, "other memory than the indirect form");
		else if (back[0] != back[1] || (!t->body && back[0] != D->in[4]))
			fail(e, code, len, "another return address");
	}
}

/* ---- functions that are recognized ----------------------------------------- */

#define FUNCTION __attribute__((noinline, used)) static
FUNCTION void does_nothing(void) {}
FUNCTION int zero(void) { return 0; }
FUNCTION int five(void) { return 5; }
FUNCTION unsigned same_32(unsigned x) { return x; }
FUNCTION uint64_t same_64(uint64_t x) { return x; }
FUNCTION const char *same_pointer(const char *x) { return x; }
FUNCTION double same_double(double x) { return x; }
FUNCTION uint64_t more(uint64_t x) { return x + 1; }
FUNCTION uint64_t second(uint64_t x, uint64_t y) { (void)x; return y; }
FUNCTION int reads(const int *x) { return *x; }
FUNCTION uint64_t wide(void) { return 0x123456789; }
FUNCTION void writes(volatile int *x) { *x = 1; }

static void tiny_expect(const char *name, const void *function, int expected, unsigned len, const char *code)
{
	struct etch_pv_body b = {0};
	int got = etch_pv_tiny(function, 16, &b);

	checked++;
	if (got != expected || (got && (b.len != len || memcmp(b.bytes, code, len) || !b.one))) {
		failures++;
		printf("FAIL %s: recognized %d, %u bytes\n", name, got, b.len);
	}
}

/* Bytes, and how many must be there to be read before it is recognized; 0: never. */
static void tiny_bytes(const char *code, unsigned n, unsigned needs)
{
	struct etch_pv_body b;

	for (unsigned k = 0; k <= n; k++) {
		uint8_t *copy = malloc(k + !k); /* so that ASan sees a read after it */

		memcpy(copy, code, k);
		checked++;
		if (etch_pv_tiny(copy, k, &b) != (needs && k >= needs)) {
			failures++;
			printf("FAIL %u of the bytes", k);
			for (unsigned i = 0; i < n; i++)
				printf(" %02x", (uint8_t)code[i]);
			printf("\n");
		}
		free(copy);
	}
}

static void tiny(void)
{
	tiny_expect("does_nothing", (void *)does_nothing, 1, 0, "");
	tiny_expect("zero", (void *)zero, 1, 2, "\x31\xc0");
	tiny_expect("five", (void *)five, 1, 5, "\xb8\x05\0\0");
	tiny_expect("same_32", (void *)same_32, 1, 2, "\x89\xf8");
	tiny_expect("same_64", (void *)same_64, 1, 3, "\x48\x89\xf8");
	tiny_expect("same_pointer", (void *)same_pointer, 1, 3, "\x48\x89\xf8");
	tiny_expect("same_double", (void *)same_double, 1, 0, "");
	tiny_expect("more", (void *)more, 0, 0, "");
	tiny_expect("second", (void *)second, 0, 0, "");
	tiny_expect("reads", (void *)reads, 0, 0, "");
	tiny_expect("wide", (void *)wide, 0, 0, "");
	tiny_expect("writes", (void *)writes, 0, 0, "");
	tiny_bytes("\xc3\x90", 2, 1);
	tiny_bytes("\xf3\xc3\x90", 3, 2);
	tiny_bytes("\xf3\x0f\x1e\xfa\xc3", 5, 5);
	tiny_bytes("\xf3\x0f\x1e\xfa\xf3\xc3", 6, 6);
	tiny_bytes("\xf3\x0f\x1e\xfa\x48\x89\xf8\xc3", 8, 8);
	tiny_bytes("\xf3\x0f\x1e\xfa\xb8\x01\x02\x03\x04\xc3", 10, 10);
	tiny_bytes("\xb8\x01\x02\x03\x04\xc3", 6, 6);
	tiny_bytes("\xb8\xc3\xc3\xc3\xc3\x90", 6, 0);
	tiny_bytes("\x31\xc0\xc3", 3, 3);
	tiny_bytes("\xc2\x08\x00", 3, 0);             /* ret $8 */
	tiny_bytes("\xf3\x0f\x1e\xfb\xc3", 5, 0);     /* endbr32 */
	tiny_bytes("\x48\x89\xf0\xc3", 4, 0);         /* mov %rsi,%rax */
	tiny_bytes("\x66\x31\xc0\xc3", 4, 0);         /* xor %ax,%ax */
	tiny_bytes("\x48\xb8\xc3\xc3\xc3\xc3\xc3\xc3\xc3\xc3\xc3", 11, 0);
	tiny_bytes("\x31\xc0\x31\xc0\xc3", 5, 0);
	tiny_bytes("\xf2\xc3", 2, 0);                 /* bnd ret: nothing of ours, left alone */
	tiny_bytes("\xe9\x00\x00\x00\x00\xc3", 6, 0);
	tiny_bytes("\xcc\xc3", 2, 0);                 /* a breakpoint on `ret`... */
	tiny_bytes("\x31\xc0\xcc", 3, 0);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	if (mmap((void *)CODE, 0x20000, PROT_READ | PROT_WRITE | PROT_EXEC,
	         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED ||
	    !ZYAN_SUCCESS(ZydisDecoderInit(&zydis, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) ||
	    cs_open(CS_ARCH_X86, CS_MODE_64, &capstone) || cs_option(capstone, CS_OPT_DETAIL, CS_OPT_ON)) {
		perror("set-up");
		return 2;
	}
	targets_lay_out();
	if (!strcmp(argv[1], "tiny")) {
		tiny();
	} else if (!strcmp(argv[1], "list") && argc == 3) {
		bytes_out = fopen(argv[2], "w");
		if (!bytes_out)
			return 2;
		entries_visit(entry_decode);
		fclose(bytes_out);
	} else {
		entries_visit(!strcmp(argv[1], "decode") ? entry_decode : entry_execute);
	}
	printf("%lu entries, %lu checks, %lu failures\n", entries, checked, failures);
	return failures != 0;
}
