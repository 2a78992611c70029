/* SPDX-License-Identifier: MIT */
/* Finds the site forms of an instruction (etch/forms.h, etch/pv_forms.h), by Zydis. */
#include "arch/x86/insn.h"
#include "arch/x86/zydis.h"

#include <etch/pv_forms.h>
#include <stdio.h>
#include <string.h>

/* Returns 0, 1, 2 or 3 for a width of 8, 16, 32 or 64 bits. The forms for these widths have consecutive numbers. */
static unsigned log_of_width(unsigned width)
{
	switch (width) {
	case 8: return 0;
	case 16: return 1;
	case 32: return 2;
	default: return 3;
	}
}

/* Returns the form for a width, in bits, of the register that is written, or ETCH_FORM_NONE. */
static unsigned by_width(unsigned width, unsigned form_16, unsigned form_32, unsigned form_64)
{
	switch (width) {
	case 16: return form_16;
	case 32: return form_32;
	case 64: return form_64;
	default: return ETCH_FORM_NONE;
	}
}

/* Returns the ETCH_FORM_* of an instruction by its mnemonic and operand sizes, or ETCH_FORM_NONE. */
static unsigned form_of(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops)
{
	static const ZydisMnemonic alu[8] = {
		ZYDIS_MNEMONIC_ADD, ZYDIS_MNEMONIC_OR,  ZYDIS_MNEMONIC_ADC, ZYDIS_MNEMONIC_SBB,
		ZYDIS_MNEMONIC_AND, ZYDIS_MNEMONIC_SUB, ZYDIS_MNEMONIC_XOR, ZYDIS_MNEMONIC_CMP,
	};
	unsigned width = ops[0].size, mem = 0, log, i;

	if (z->mnemonic == ZYDIS_MNEMONIC_PUSH)
		return ops[0].size == 64 ? ETCH_FORM_PUSH64 : ETCH_FORM_NONE;
	for (i = 0; i < z->operand_count_visible; i++)
		if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
			mem = ops[i].size;
	log = log_of_width(width);
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_MOV: return ETCH_FORM_MOV8 + log;
	case ZYDIS_MNEMONIC_MOVZX:
		if (mem == 8)
			return by_width(width, ETCH_FORM_MOVZX8_16, ETCH_FORM_MOVZX8_32, ETCH_FORM_MOVZX8_64);
		return by_width(width, ETCH_FORM_NONE, ETCH_FORM_MOVZX16_32, ETCH_FORM_MOVZX16_64);
	case ZYDIS_MNEMONIC_MOVSX:
		if (mem == 8)
			return by_width(width, ETCH_FORM_MOVSX8_16, ETCH_FORM_MOVSX8_32, ETCH_FORM_MOVSX8_64);
		return by_width(width, ETCH_FORM_NONE, ETCH_FORM_MOVSX16_32, ETCH_FORM_MOVSX16_64);
	case ZYDIS_MNEMONIC_MOVSXD: return width == 64 ? ETCH_FORM_MOVSX32_64 : ETCH_FORM_NONE;
	case ZYDIS_MNEMONIC_TEST: return ETCH_FORM_TEST8 + log;
	case ZYDIS_MNEMONIC_IMUL: return log ? ETCH_FORM_IMUL16 + log - 1 : ETCH_FORM_NONE;
	default:
		for (i = 0; i < 8; i++)
			if (z->mnemonic == alu[i])
				return ETCH_FORM_ALU + 4 * i + log;
		return ETCH_FORM_NONE;
	}
}

/* Returns the reason why an instruction has no form, as a phrase for messages. */
static const char *no_form(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops)
{
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_BT: return "bit test in memory has no immediate form of the same length";
	case ZYDIS_MNEMONIC_DIV:
	case ZYDIS_MNEMONIC_IDIV:
	case ZYDIS_MNEMONIC_MUL:
	case ZYDIS_MNEMONIC_IMUL: return "multiply or divide through fixed registers has no immediate form";
	case ZYDIS_MNEMONIC_MOV: return "segment or control register load";
	default: break;
	}
	if (z->meta.category == ZYDIS_CATEGORY_CMOV)
		return "conditional move has no immediate form";
	if (z->meta.category == ZYDIS_CATEGORY_X87_ALU)
		return "vector or x87 load has no immediate form";
	if (z->meta.category == ZYDIS_CATEGORY_CONVERT)
		return "conversion from floating point or vector has no immediate form";
	if (ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER && zydis_gpr(ops[0].reg.value) == INSN_NO_REG)
		return "vector or x87 load has no immediate form";
	return "no immediate form of this instruction";
}

/* Returns the form of a compare of memory, as its first operand, with a register or a constant, or of a test of memory
 * with a constant; ETCH_FORM_NONE if the instruction is neither. */
static unsigned compare_form(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops)
{
	unsigned width = ops[0].size, log = log_of_width(width);
	bool constant = ops[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;

	if (ops[0].type != ZYDIS_OPERAND_TYPE_MEMORY || (z->attributes & ZYDIS_ATTRIB_HAS_LOCK))
		return ETCH_FORM_NONE;
	if (z->mnemonic == ZYDIS_MNEMONIC_CMP)
		return (constant ? ETCH_FORM_CMPI8 : ETCH_FORM_CMPR8) + log;
	return z->mnemonic == ZYDIS_MNEMONIC_TEST && constant ? ETCH_FORM_TESTI8 + log : ETCH_FORM_NONE;
}

/* Returns the low `bytes` bytes of a number, sign-extended to 32 bits. */
static int32_t extended(int64_t number, unsigned bytes)
{
	switch (bytes) {
	case 1: return (int8_t)number;
	case 2: return (int16_t)number;
	default: return (int32_t)number;
	}
}

/* Sets the members of *out and *more that describe the addressing and the constant of a site. Returns null, or the
 * reason why an entry cannot describe the site. `reg` is the register that the site names; `rex`: there is a REX
 * prefix. */
static const char *addressing_set(const struct insn *insn, unsigned reg, bool rex, struct etch_imv *out,
                                  struct etch_imv_more *more)
{
	bool flags = etch_form_is_flags(out->form), based = insn->base != INSN_PC_REG && insn->base != INSN_NO_REG;
	unsigned mode = insn->base == INSN_PC_REG ? ETCH_ADDR_RIP : ETCH_ADDR_ABS;

	if (insn->disp_len == 8)
		return "64-bit absolute address";
	if (insn->disp_len != 4 && !(flags && based && insn->disp_len <= 1))
		return "too short for an immediate: its address is in a register";
	if (based)
		mode = insn->disp || flags ? ETCH_ADDR_DISP : ETCH_ADDR_BASE;
	if (based && insn->base == 4)
		return "its address is relative to the stack pointer";
	out->regs = (uint8_t)(reg | (based ? insn->base << 4 : 0));
	out->shape = (uint8_t)(insn->len | mode << 4 | (rex ? 0x40 : 0));
	if (!flags && mode != ETCH_ADDR_DISP)
		return NULL;
	if (insn->unlinked)
		return "the linker writes its constant: only the link step knows it";
	out->flags |= ETCH_IMV_MORE;
	*more = (struct etch_imv_more){.form = ETCH_FORM_MORE};
	if (flags) {
		more->imm = extended(insn->imm, insn->imm_len);
		more->shape = insn->imm_len;
	}
	if (mode == ETCH_ADDR_DISP) {
		more->disp = (int32_t)insn->disp;
		more->shape |= (uint8_t)(insn->disp_len << 4);
	}
	return NULL;
}

/* Returns the form of an instruction with the explicit memory operand `mem`, or ETCH_FORM_NONE. *reg becomes the
 * register that the entry of the site has to name, or 0. */
static unsigned form_choose(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops,
                            const ZydisDecodedOperand *mem, unsigned *reg)
{
	const ZydisDecodedOperand *dst = &ops[0];
	unsigned form;

	*reg = 0;
	if (z->mnemonic == ZYDIS_MNEMONIC_PUSH)
		return form_of(z, ops);
	if (z->mnemonic == ZYDIS_MNEMONIC_TEST && mem == &ops[0] && ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER)
		dst = &ops[1]; /* test is commutative; its encoding has the memory operand first */
	form = dst == mem ? compare_form(z, ops) : ETCH_FORM_NONE;
	if (etch_form_is_flags(form)) /* the other operand is a constant, so there is no register */
		return form;
	if (!form && (dst == mem || dst->type != ZYDIS_OPERAND_TYPE_REGISTER || zydis_gpr(dst->reg.value) == INSN_NO_REG))
		return ETCH_FORM_NONE;
	*reg = z->raw.modrm.reg | z->raw.rex.R << 3;
	if (form)
		return form;
	return z->mnemonic == ZYDIS_MNEMONIC_TEST ? ETCH_FORM_TEST8 + log_of_width(dst->size) : form_of(z, ops);
}

/* The reason why no instruction that only arch/x86/newer.h decodes has a site form. */
#define NOT_CONFIRMED "an instruction newer than the second decoder, which cannot confirm it"

const char *insn_site_form(const uint8_t *bytes, const struct insn *insn, struct etch_imv *out,
                           struct etch_imv_more *more)
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	const ZydisDecodedOperand *mem = NULL;
	unsigned form, i, reg;

	if (insn->newer)
		return NOT_CONFIRMED;
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(zydis_decoder(), bytes, insn->len, &z, ops)))
		return "does not decode";
	if (insn->index != INSN_NO_REG)
		return "indexed: its address is not fixed";
	if (insn->segment)
		return "segment override";
	for (i = 0; i < z.operand_count_visible; i++)
		if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
			mem = &ops[i];
	if (z.mnemonic == ZYDIS_MNEMONIC_IMUL && z.operand_count_visible > 2)
		return "multiply of memory by a constant has no immediate form";
	if (!mem || z.operand_count_visible > 2)
		return no_form(&z, ops);
	form = form_choose(&z, ops, mem, &reg);
	if (!form)
		return no_form(&z, ops);
	out->form = (uint8_t)form;
	return addressing_set(insn, reg, z.attributes & ZYDIS_ATTRIB_HAS_REX, out, more);
}

const char *insn_pv_form(const uint8_t *bytes, const struct insn *insn, struct etch_imv *out)
{
	unsigned notrack = bytes[0] == 0x3e, rex = (bytes[notrack] & 0xf0) == 0x40, mode, reg = 0;
	bool call = insn->flow == FLOW_CALL_IND;
	int64_t disp = 0;

	if (insn->newer)
		return NOT_CONFIRMED;
	if (insn->mem == MEM_NONE) {
		if (insn->src == INSN_NO_REG)
			return "unusual call encoding";
		mode = ETCH_ADDR_REG;
		reg = insn->src;
	} else {
		if (insn->index != INSN_NO_REG)
			return "indexed: its slot is not fixed";
		if (insn->segment)
			return "segment override";
		if (insn->mem_size != 8)
			return "a far or 16-bit call";
		if (insn->base == INSN_PC_REG) {
			mode = ETCH_ADDR_RIP;
		} else if (insn->base == INSN_NO_REG) {
			mode = ETCH_ADDR_ABS;
		} else {
			mode = ETCH_ADDR_BASE;
			reg = insn->base;
			disp = insn->disp;
		}
	}
	if (insn->len < 2 || insn->len > 9)
		return "unusual call encoding";
	if (mode == ETCH_ADDR_BASE && reg == 4)
		return "its address is relative to the stack pointer";
	if (disp % 8)
		return "its offset in the table is not a multiple of 8";
	if (!etch_pv_set(out, reg, disp))
		return "its offset in the table is too large for an entry";
	out->form = call ? ETCH_FORM_CALL : ETCH_FORM_JMP;
	out->shape = (uint8_t)(insn->len | mode << 4 | rex << 6 | (notrack ? ETCH_PV_NOTRACK : 0));
	return NULL;
}

void insn_form_name(unsigned form, char *out, size_t size)
{
	static const char *const mov[16] = {
		"none",       "mov8",       "mov16",     "mov32",     "mov64",     "movzx8_16",  "movzx8_32",  "movzx8_64",
		"movzx16_32", "movzx16_64", "movsx8_16", "movsx8_32", "movsx8_64", "movsx16_32", "movsx16_64", "movsx32_64",
	};
	static const char *const alu[8] = {"add", "or", "adc", "sbb", "and", "sub", "xor", "cmp"};
	static const char *const compares[] = {"cmpr", "cmpi", "testi"};

	if (form < 16)
		snprintf(out, size, "%s", mov[form]);
	else if (form <= ETCH_FORM_ALU_LAST)
		snprintf(out, size, "%s%u", alu[(form - ETCH_FORM_ALU) / 4], 8u << (form & 3));
	else if (form <= ETCH_FORM_TEST64)
		snprintf(out, size, "test%u", 8u << (form - ETCH_FORM_TEST8));
	else if (form >= ETCH_FORM_IMUL16 && form <= ETCH_FORM_IMUL64)
		snprintf(out, size, "imul%u", 16u << (form - ETCH_FORM_IMUL16));
	else if (form == ETCH_FORM_PUSH64)
		snprintf(out, size, "push64");
	else if (form >= ETCH_FORM_CMPR8 && form <= ETCH_FORM_LAST)
		snprintf(out, size, "%s%u", compares[(form - ETCH_FORM_CMPR8) / 4], 8u << ((form - ETCH_FORM_CMPR8) & 3));
	else
		snprintf(out, size, "form%u", form);
}
