/* SPDX-License-Identifier: MIT */
/* Functions for all files that use the first decoder, Zydis. */
#ifndef X86_ZYDIS_H
#define X86_ZYDIS_H

#include <Zydis/Zydis.h>
#include <stdbool.h>

#include "arch/x86/insn.h"

/* Returns the decoder for 64-bit code. Thread-safe. */
const ZydisDecoder *zydis_decoder(void);

/* Decodes one instruction with its operands: by Zydis, or by arch/x86/newer.h if Zydis does not know it. Returns false
 * if neither does. */
bool zydis_decode(const uint8_t *bytes, size_t avail, ZydisDecodedInstruction *z, ZydisDecodedOperand *ops);

/* Sets out->flags_read and out->flags_set. */
void zydis_flags(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, struct insn *out);
/* Is the stack pointer certainly even after an instruction that changes it? This assumes that it was even before, and
 * that rbp, if the instruction reads it, holds an earlier value of the stack pointer. */
bool zydis_stack_even(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops);

/* Returns the control flow after an instruction. `direct`: the instruction has a relative target. */
enum insn_flow zydis_flow(const ZydisDecodedInstruction *z, bool direct);

/*
 * Is the instruction the jump of pv_call_inline? Its encoding tells: a near jump with a DS and a CS prefix, which no
 * compiler emits. etch may replace it by a nop, so control may go both ways (etch/pv_forms.h, __pv_inline).
 */
static inline bool zydis_is_inline_jump(const ZydisDecodedInstruction *z)
{
	return z->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && z->opcode == 0xe9 && z->raw.prefix_count == 2 &&
	       z->raw.prefixes[0].value == 0x3e && z->raw.prefixes[1].value == 0x2e;
}

/* Is the instruction a nop of any length, or int3? */
static inline bool zydis_is_padding(const ZydisDecodedInstruction *z)
{
	return z->mnemonic == ZYDIS_MNEMONIC_NOP || z->mnemonic == ZYDIS_MNEMONIC_INT3 ||
	       z->meta.category == ZYDIS_CATEGORY_WIDENOP;
}

/* Is the instruction a system call, or an interrupt that may be one? */
static inline bool zydis_enters_kernel(const ZydisDecodedInstruction *z)
{
	return z->meta.category == ZYDIS_CATEGORY_SYSCALL || z->meta.category == ZYDIS_CATEGORY_INTERRUPT;
}

/* Is r one of ah ch dh bh? */
static inline bool zydis_is_high_byte(ZydisRegister r) { return r >= ZYDIS_REGISTER_AH && r <= ZYDIS_REGISTER_BH; }

/* Returns the number of the general-purpose register that contains r, or INSN_NO_REG. Zydis lists each width in
 * encoding order, with ah ch dh bh after bl. */
static inline unsigned zydis_gpr(ZydisRegister r)
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
