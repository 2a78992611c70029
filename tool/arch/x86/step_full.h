/* SPDX-License-Identifier: MIT */
/* Makes the struct step of an instruction that Zydis has decoded with all operands. The functions after step_full()
 * make the parts of the step that are equal for all instructions of a form (arch/x86/form.h). */
#ifndef X86_STEP_FULL_H
#define X86_STEP_FULL_H

#include "arch/x86/fast_decoder.h"
#include "arch/x86/zydis.h"

/* Fills *out, which must be zero except for its length and for a, b and index, which must be INSN_NO_REG. */
void step_full(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, uint64_t addr, struct step *out);

/* Sets the members of *out that describe control flow: flow, cond, and in imm the target of a direct jump, branch or
 * call. */
void full_flow(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, uint64_t addr, struct step *out);
/* Returns how an instruction with this mnemonic changes the direction flag (enum step_direction). */
uint8_t full_direction(unsigned mnemonic);
/* If the mnemonic is that of a system call, describes it in *out and returns true. */
bool full_syscall(unsigned mnemonic, struct step *out);
/* Returns the mask of registers that an instruction changes by entering the kernel; 0 for others. The kernel returns
 * its result in rax, and syscall itself changes rcx and r11 (psABI A.2.1). */
uint16_t full_kernel_writes(const ZydisDecodedInstruction *z);
/* Does the instruction write any flag? */
bool full_writes_flags(const ZydisDecodedInstruction *z);
/* Returns the number of bytes that an instruction stores to its operand *op, encoded as in step.size; 0 if it stores
 * none. */
uint8_t full_stored(const ZydisDecodedOperand *op);
/* Is an instruction with this flow a call or a return? Its change of rsp is not in step.writes. */
static inline bool full_calls(unsigned flow) { return flow_is_call(flow) || flow == FLOW_RETURN; }

/* Completes the step of an instruction without control flow after shape_apply(). `imm` is the first immediate; `wide`
 * is true if it has 32 bits. */
static inline void full_complete(struct step *out, bool writes_flags, bool wide, int64_t imm)
{
	out->cond = out->op == STEP_COMPARE || out->op == STEP_LIMIT || writes_flags;
	if (out->op == STEP_NONE && out->size)
		out->op = STEP_STORE; /* of an unknown value, since a is INSN_NO_REG */
	if ((out->op == STEP_NONE || out->op == STEP_STORE) && wide && !out->imm)
		out->imm = imm; /* a 32-bit immediate may be an address */
}

#endif
