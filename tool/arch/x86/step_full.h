/* SPDX-License-Identifier: MIT */
/* Makes the struct step of an instruction whose operands Zydis has all decoded, and provides the parts of it that are
 * equal for all instructions of a form (arch/x86/form.h). */
#ifndef X86_STEP_FULL_H
#define X86_STEP_FULL_H

#include "arch/x86/fast_decoder.h"
#include "arch/x86/zydis.h"

/* Fills *out, which must be zero except for its length and for a, b and index, which must be INSN_NO_REG. */
void step_full(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, uint64_t addr, struct step *out);

/* Sets the flow, the condition, and the target of a direct jump, branch or call. */
void full_flow(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, uint64_t addr, struct step *out);
/* Returns the enum step_direction of a mnemonic. */
uint8_t full_direction(unsigned mnemonic);
bool full_syscall(unsigned mnemonic, struct step *out);
bool full_is_padding(const ZydisDecodedInstruction *z);

#endif
