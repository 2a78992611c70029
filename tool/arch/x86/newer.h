/* SPDX-License-Identifier: MIT */
/*
 * Instructions that the Zydis of Debian 12 (4.0) does not know because they are newer: Intel's APX, and the extensions
 * in newer.c's table.
 *
 * An APX instruction is an older one with another prefix: REX2 (d5), or EVEX map 4. So a copy of the instruction gets
 * the older encoding, Zydis decodes the copy, and then the result is changed as the newer prefix demands: registers r16
 * to r31, a third operand, flags that stay unchanged. If there is no older instruction, another one with the same
 * operands stands in for it.
 *
 * Capstone 4 knows none of these instructions, so none of them is ever rewritten (insn_confirm()).
 */
#ifndef X86_NEWER_H
#define X86_NEWER_H

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Mnemonics in addition to those of Zydis. An instruction that does not do the same as the older one with which Zydis
 * decodes it has one of these, so that no code takes it for the older one.
 */
enum {
	NEWER_CHANGED = 0x8000, /* plus the mnemonic of an older instruction: the same computation, but with another
	                           destination or under a condition */
	NEWER_MNEMONIC = 0x4000,
	NEWER_PUSH2 = NEWER_MNEMONIC, /* pushes its first operand, then its second */
	NEWER_POP2,                   /* pops into its first operand, then into its second */
	NEWER_JMPABS,
	NEWER_VECTOR, /* any instruction on vectors, such as those of AVX10.2 */
	NEWER_ROW,    /* plus the index of a row in newer.c's table */
};

/* Registers r16 to r31 of 8, 16, 32 and 64 bits. The numbers are beyond those of Zydis, so zydis_gpr() knows none of
 * them. */
enum {
	NEWER_REGISTER = 0x1000,
	NEWER_R16B = NEWER_REGISTER,
	NEWER_R16W = NEWER_R16B + 16,
	NEWER_R16D = NEWER_R16W + 16,
	NEWER_R16 = NEWER_R16D + 16,
	NEWER_REGISTERS_END = NEWER_R16 + 16,
};

static inline bool newer_is_register(unsigned r) { return r >= NEWER_REGISTER && r < NEWER_REGISTERS_END; }

/* Decodes one newer instruction, and fills *z and ops as ZydisDecoderDecodeFull() would. Returns false if it is none
 * that this file knows. */
bool newer_decode(const uint8_t *bytes, size_t avail, ZydisDecodedInstruction *z, ZydisDecodedOperand *ops);

/* Writes the disassembly of a newer instruction, in Intel or AT&T syntax. Returns false if it is none that this file
 * knows. */
bool newer_text(bool intel, const uint8_t *bytes, size_t avail, char *out, size_t out_size);

/*
 * Given bytes that no decoder knows: may processors add an instruction there? This is true for opcodes after VEX, EVEX,
 * REX2 or XOP, and for those of 0f 38, 0f 3a and the groups of 0f. Other unknown bytes are invalid on every processor.
 */
bool newer_is_reserved(const uint8_t *bytes, size_t avail);

#endif
