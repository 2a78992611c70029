/* SPDX-License-Identifier: MIT */
/* The effects of an instruction on flags and on the stack pointer: which flags it reads and sets, whether the stack
 * pointer stays even, and by how much the instruction moves it. */
#include "arch/x86/newer.h"
#include "arch/x86/zydis.h"

#define ORDER (ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF)
#define REST  (ORDER | ZYDIS_CPUFLAG_PF)

/* May an instruction that sets flags leave them unchanged? A shift or rotate by 0 does so, and so does a string
 * instruction that is repeated 0 times. */
static bool may_keep_flags(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops)
{
	unsigned mnemonic = (unsigned)z->mnemonic & ~NEWER_CHANGED;
	const ZydisDecodedOperand *count;

	if (z->attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE))
		return true;
	switch (mnemonic) {
	case ZYDIS_MNEMONIC_RCL:
	case ZYDIS_MNEMONIC_RCR:
	case ZYDIS_MNEMONIC_ROL:
	case ZYDIS_MNEMONIC_ROR:
	case ZYDIS_MNEMONIC_SHL:
	case ZYDIS_MNEMONIC_SAR:
	case ZYDIS_MNEMONIC_SHR:
	case ZYDIS_MNEMONIC_SHLD:
	case ZYDIS_MNEMONIC_SHRD: break;
	default: return false;
	}
	count = &ops[z->operand_count_visible - 1];
	return count->type != ZYDIS_OPERAND_TYPE_IMMEDIATE || !(count->imm.value.u & (ops[0].size == 64 ? 63 : 31));
}

void zydis_flags(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, struct insn *out)
{
	uint32_t read = 0, set = 0;

	if (z->cpu_flags) {
		read = z->cpu_flags->tested;
		set = z->cpu_flags->modified | z->cpu_flags->set_0 | z->cpu_flags->set_1;
	}
	if (z->mnemonic == ZYDIS_MNEMONIC_PUSHF || z->mnemonic == ZYDIS_MNEMONIC_PUSHFQ ||
	    z->mnemonic == ZYDIS_MNEMONIC_LAHF || z->meta.category == ZYDIS_CATEGORY_SYSCALL)
		out->flags_read = INSN_FLAGS;
	if (read & ZYDIS_CPUFLAG_ZF)
		out->flags_read |= ETCH_NEED_EQUAL;
	if (read & ZYDIS_CPUFLAG_CF)
		out->flags_read |= ETCH_NEED_BELOW;
	if ((read & ORDER) == ORDER)
		out->flags_read |= ETCH_NEED_LESS;
	else if (read & ORDER)
		out->flags_read |= INSN_FLAGS_REST;
	if (read & (ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF))
		out->flags_read |= INSN_FLAGS_REST;
	if (may_keep_flags(z, ops))
		return;
	if (set & ZYDIS_CPUFLAG_ZF)
		out->flags_set |= ETCH_NEED_EQUAL;
	if (set & ZYDIS_CPUFLAG_CF)
		out->flags_set |= ETCH_NEED_BELOW;
	if ((set & ORDER) == ORDER)
		out->flags_set |= ETCH_NEED_LESS;
	if ((set & REST) == REST)
		out->flags_set |= INSN_FLAGS_REST;
}

bool zydis_stack_even(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops)
{
	unsigned frame = 0, disp;

	if ((unsigned)z->mnemonic == NEWER_PUSH2 || (unsigned)z->mnemonic == NEWER_POP2)
		return true;
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_PUSH:
	case ZYDIS_MNEMONIC_PUSHFQ:
	case ZYDIS_MNEMONIC_POPFQ:
	case ZYDIS_MNEMONIC_CALL:
	case ZYDIS_MNEMONIC_RET:
	case ZYDIS_MNEMONIC_LEAVE:
	case ZYDIS_MNEMONIC_SYSCALL: return true;
	case ZYDIS_MNEMONIC_POP:
		return ops[0].type != ZYDIS_OPERAND_TYPE_REGISTER || ops[0].reg.value != ZYDIS_REGISTER_RSP;
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_SUB:
	case ZYDIS_MNEMONIC_AND:
		return ops[0].size == 64 && ops[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && !(ops[1].imm.value.u & 1);
	case ZYDIS_MNEMONIC_MOV:
		return ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER && ops[1].reg.value == ZYDIS_REGISTER_RBP;
	case ZYDIS_MNEMONIC_LEA:
		frame = ops[1].mem.base == ZYDIS_REGISTER_RSP || ops[1].mem.base == ZYDIS_REGISTER_RBP;
		disp = (unsigned)ops[1].mem.disp.value;
		return frame && ops[1].mem.index == ZYDIS_REGISTER_NONE && !(disp & 1) && ops[0].size == 64;
	default: return false;
	}
}

bool insn_stack_move(const uint8_t *bytes, const struct insn *in, int64_t *by)
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];

	*by = 0;
	if (in->padding || in->flow == FLOW_RETURN || flow_is_call(in->flow))
		return true; /* the callee of a call takes the return address off the stack again */
	if (!(in->writes & 1u << 4))
		return !(in->reads & 1u << 4);
	if (in->move == MOVE_ADD) {
		*by = in->imm;
		return true;
	}
	if (in->move == MOVE_ADDRESS && in->base == 4 && in->index == INSN_NO_REG) {
		*by = in->disp;
		return true;
	}
	if (!zydis_decode(bytes, in->len, &z, ops))
		return false;
	if ((unsigned)z.mnemonic == NEWER_PUSH2 ||
	    (unsigned)z.mnemonic == NEWER_POP2) { /* neither of the two registers can be rsp */
		*by = (unsigned)z.mnemonic == NEWER_PUSH2 ? -16 : 16;
		return true;
	}
	if (z.operand_width != 64)
		return false;
	*by = z.mnemonic == ZYDIS_MNEMONIC_PUSH ? -8 : 8;
	/* if the operand is rsp itself, the distance is not known */
	return (z.mnemonic == ZYDIS_MNEMONIC_PUSH || z.mnemonic == ZYDIS_MNEMONIC_POP) &&
	       (ops[0].type != ZYDIS_OPERAND_TYPE_REGISTER || zydis_gpr(ops[0].reg.value) != 4);
}
