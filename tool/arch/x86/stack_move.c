/* SPDX-License-Identifier: MIT */
/* Computes how far one instruction moves the stack pointer. */
#include "arch/x86/newer.h"
#include "arch/x86/zydis.h"

bool insn_stack_move(const uint8_t *bytes, const struct insn *in, int64_t *by)
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];

	*by = 0;
	if (in->padding || in->flow == FLOW_RETURN || in->flow == FLOW_CALL || in->flow == FLOW_CALL_IND)
		return true; /* a callee takes its return address off the stack again */
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
	    (unsigned)z.mnemonic == NEWER_POP2) { /* rsp cannot be one of the two registers */
		*by = (unsigned)z.mnemonic == NEWER_PUSH2 ? -16 : 16;
		return true;
	}
	if (z.operand_width != 64)
		return false;
	*by = z.mnemonic == ZYDIS_MNEMONIC_PUSH ? -8 : 8;
	/* a push or pop of rsp itself does something else */
	return (z.mnemonic == ZYDIS_MNEMONIC_PUSH || z.mnemonic == ZYDIS_MNEMONIC_POP) &&
	       (ops[0].type != ZYDIS_OPERAND_TYPE_REGISTER || zydis_gpr(ops[0].reg.value) != 4);
}
