/* SPDX-License-Identifier: MIT */
/* struct step of an instruction of which Zydis has decoded every operand; and of it what is the
 * same for all of a form. */
#ifndef X86_STEP_FULL_H
#define X86_STEP_FULL_H

#include "arch/x86/stack.h"
#include "arch/x86/zydis.h"

/* *out is all 0, but for its length and registers that are INSN_NO_REG. */
void step_full(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, uint64_t addr, struct step *out);

/* Where it goes on, and the target of a direct jump. */
void full_flow(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, uint64_t addr, struct step *out);
/* enum step_direction */
uint8_t full_direction(unsigned mnemonic);
bool full_syscall(unsigned mnemonic, struct step *out);
bool full_is_padding(const ZydisDecodedInstruction *z);

#endif
