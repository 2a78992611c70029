/* SPDX-License-Identifier: MIT */
/*
 * Decides whether an instruction sequence may replace a call. The sequence may do what the calling convention allows a
 * function to do (System V psABI 3.2), apart from the return: write to caller-saved registers, to flags other than the
 * direction flag, and to memory other than the stack. Instructions whose meaning depends on their address are always
 * refused.
 */
#include "arch/x86/insn.h"
#include "arch/x86/zydis.h"

#include <etch/pv_forms.h>
#include <string.h>

#define SITE_MOST 9u /* bytes of the longest call site: see etch_pv_valid() */

static ZydisRegister whole(ZydisRegister r) { return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r); }

static bool is_ip_register(ZydisRegister r)
{
	return r == ZYDIS_REGISTER_RIP || r == ZYDIS_REGISTER_EIP || r == ZYDIS_REGISTER_IP;
}

/* May a callee change register r? */
static bool may_write(const ZydisDecodedInstruction *z, ZydisRegister r)
{
	ZydisRegister full = whole(r);

	if (full >= ZYDIS_REGISTER_RAX && full <= ZYDIS_REGISTER_R15)
		return insn_call_clobbers() >> (full - ZYDIS_REGISTER_RAX) & 1;
	switch (ZydisRegisterGetClass(r)) {
	case ZYDIS_REGCLASS_XMM:
	case ZYDIS_REGCLASS_YMM:
	case ZYDIS_REGCLASS_ZMM:
	case ZYDIS_REGCLASS_MASK:
	case ZYDIS_REGCLASS_FLAGS: return true;
	default: break;
	}
	/* Arithmetic may set the exception flags in MXCSR; the control bits of MXCSR are callee-saved. */
	return r == ZYDIS_REGISTER_MXCSR && z->mnemonic != ZYDIS_MNEMONIC_LDMXCSR && z->mnemonic != ZYDIS_MNEMONIC_VLDMXCSR;
}

static const char *operand_refuse(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *op)
{
	if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		if (whole(op->mem.base) == ZYDIS_REGISTER_RSP || whole(op->mem.index) == ZYDIS_REGISTER_RSP)
			return "it uses the stack";
		if (is_ip_register(op->mem.base))
			return "it has an operand relative to %rip";
	}
	if (op->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && op->imm.is_relative)
		return "it branches";
	if (op->type != ZYDIS_OPERAND_TYPE_REGISTER)
		return NULL;
	if (whole(op->reg.value) == ZYDIS_REGISTER_RSP)
		return "it uses the stack pointer";
	if (is_ip_register(op->reg.value))
		return "it branches or depends on its own address";
	if ((op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) && !may_write(z, op->reg.value))
		return whole(op->reg.value) >= ZYDIS_REGISTER_RAX && whole(op->reg.value) <= ZYDIS_REGISTER_R15
		           ? "it changes a callee-saved register"
		           : "it changes a system register or the x87 stack";
	return NULL;
}

/* Returns null if an instruction may be part of what replaces a call; otherwise the reason why not, as a phrase for
 * messages. */
static const char *insn_refuse(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops)
{
	const char *why;
	unsigned i;

	switch (z->meta.category) {
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_RET:
	case ZYDIS_CATEGORY_UNCOND_BR:
	case ZYDIS_CATEGORY_COND_BR: return "it branches";
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_SYSRET:
	case ZYDIS_CATEGORY_INTERRUPT: return "it enters the kernel, or traps";
	case ZYDIS_CATEGORY_PUSH:
	case ZYDIS_CATEGORY_POP: return "it uses the stack";
	case ZYDIS_CATEGORY_X87_ALU:
	case ZYDIS_CATEGORY_MMX: return "it uses the x87 stack";
	default: break;
	}
	if (zydis_flow(z, false) == FLOW_STOP)
		return "it stops execution";
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_XRSTOR:
	case ZYDIS_MNEMONIC_XRSTOR64:
	case ZYDIS_MNEMONIC_XRSTORS:
	case ZYDIS_MNEMONIC_XRSTORS64:
	case ZYDIS_MNEMONIC_FXRSTOR:
	case ZYDIS_MNEMONIC_FXRSTOR64:
	case ZYDIS_MNEMONIC_XBEGIN:
	case ZYDIS_MNEMONIC_XABORT:
	case ZYDIS_MNEMONIC_XEND:
	case ZYDIS_MNEMONIC_WRFSBASE:
	case ZYDIS_MNEMONIC_WRGSBASE: return "it changes processor state";
	default: break;
	}
	if (z->meta.category == ZYDIS_CATEGORY_CET && z->mnemonic != ZYDIS_MNEMONIC_ENDBR64)
		return "it changes processor state";
	if (z->cpu_flags && ((z->cpu_flags->set_1 | z->cpu_flags->modified) & ZYDIS_CPUFLAG_DF))
		return "it changes the direction flag";
	for (i = 0; i < z->operand_count; i++) {
		why = operand_refuse(z, &ops[i]);
		if (why)
			return why;
	}
	return NULL;
}

static bool same_operands(const ZydisDecodedInstruction *a, const ZydisDecodedOperand *x,
                          const ZydisDecodedInstruction *b, const ZydisDecodedOperand *y)
{
	unsigned i;

	if (a->mnemonic != b->mnemonic || a->operand_count != b->operand_count || a->operand_width != b->operand_width)
		return false;
	for (i = 0; i < a->operand_count; i++) {
		if (x[i].type != y[i].type || x[i].size != y[i].size || x[i].actions != y[i].actions)
			return false;
		if (x[i].type == ZYDIS_OPERAND_TYPE_REGISTER && x[i].reg.value != y[i].reg.value)
			return false;
		/* The segment is not compared: the overrides cs, ds, es and ss have no effect in 64-bit mode (SDM vol. 1,
		 * 3.3.4). */
		if (x[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    (x[i].mem.base != y[i].mem.base || x[i].mem.index != y[i].mem.index || x[i].mem.scale != y[i].mem.scale ||
		     x[i].mem.disp.value != y[i].mem.disp.value))
			return false;
		if (x[i].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && x[i].imm.value.u != y[i].imm.value.u)
			return false;
	}
	return true;
}

/* Are the bytes one instruction whose meaning stays the same if 0x2e prefixes pad it to any length up to that of the
 * longest site? */
static bool can_be_padded(const uint8_t *bytes, unsigned len)
{
	ZydisDecodedInstruction z, p;
	ZydisDecodedOperand x[ZYDIS_MAX_OPERAND_COUNT], y[ZYDIS_MAX_OPERAND_COUNT];
	uint8_t padded[SITE_MOST];
	unsigned n, i;

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(zydis_decoder(), bytes, len, &z, x)))
		return false;
	for (i = 0; i < z.raw.prefix_count; i++) /* with two segment overrides, it is not certain which one counts */
		if (strchr("\x2e\x36\x3e\x26\x64\x65", z.raw.prefixes[i].value))
			return false;
	for (n = len + 1; n <= SITE_MOST; n++) {
		memset(padded, 0x2e, n - len);
		memcpy(padded + (n - len), bytes, len);
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(zydis_decoder(), padded, n, &p, y)) || p.length != n ||
		    !same_operands(&z, x, &p, y) || !insn_same_operation(bytes, len, padded, n))
			return false;
	}
	return true;
}

const char *insn_native_check(const uint8_t *bytes, unsigned len, bool *one)
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	unsigned at = 0, count = 0;
	const char *why;

	*one = false;
	if (len > ETCH_NATIVE_MOST)
		return "it is too long";
	while (at < len) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(zydis_decoder(), bytes + at, len - at, &z, ops)))
			return "it does not decode into whole instructions";
		if (!insn_same_length(bytes + at, z.length, 0))
			return "the decoders disagree";
		why = insn_refuse(&z, ops);
		if (why)
			return why;
		at += z.length;
		count++;
	}
	*one = !count || (count == 1 && can_be_padded(bytes, len));
	return NULL;
}
