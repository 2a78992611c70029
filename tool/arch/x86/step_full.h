/* SPDX-License-Identifier: MIT */
/* struct step of an instruction of which Zydis has decoded every operand; and of it what is the
 * same for all of a form. */
#ifndef X86_STEP_FULL_H
#define X86_STEP_FULL_H

#include "arch/x86/stack.h"

#include <Zydis/Zydis.h>

/* *out is all 0, but for its length and registers that are INSN_NO_REG. */
void step_full(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, uint64_t addr, struct step *out);

/* Where it goes on, and the target of a direct jump. */
void full_flow(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, uint64_t addr, struct step *out);
/* enum step_direction */
uint8_t full_direction(unsigned mnemonic);
bool full_syscall(unsigned mnemonic, struct step *out);
bool full_is_padding(const ZydisDecodedInstruction *z);

/* Number of the general-purpose register that r is a part of, or INSN_NO_REG.
 * Zydis lists each width in encoding order, but for ah ch dh bh behind bl. */
static inline unsigned gpr(ZydisRegister r)
{
	if (r >= ZYDIS_REGISTER_RAX && r <= ZYDIS_REGISTER_R15)
		return (unsigned)(r - ZYDIS_REGISTER_RAX);
	if (r >= ZYDIS_REGISTER_EAX && r <= ZYDIS_REGISTER_R15D)
		return (unsigned)(r - ZYDIS_REGISTER_EAX);
	if (r >= ZYDIS_REGISTER_AX && r <= ZYDIS_REGISTER_R15W)
		return (unsigned)(r - ZYDIS_REGISTER_AX);
	if (r >= ZYDIS_REGISTER_AL && r <= ZYDIS_REGISTER_BL)
		return (unsigned)(r - ZYDIS_REGISTER_AL);
	if (r >= ZYDIS_REGISTER_AH && r <= ZYDIS_REGISTER_BH)
		return (unsigned)(r - ZYDIS_REGISTER_AH);
	if (r >= ZYDIS_REGISTER_SPL && r <= ZYDIS_REGISTER_R15B)
		return (unsigned)(r - ZYDIS_REGISTER_SPL) + 4;
	return INSN_NO_REG;
}

#endif
