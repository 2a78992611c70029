/* SPDX-License-Identifier: MIT */
/*
 * Instructions that are newer than the Zydis of Debian 12 (4.0): Intel's APX, and the extensions in newer.c's table.
 *
 * An APX instruction is an older one with another prefix: REX2 (d5), or EVEX map 4. So it is rewritten to the older
 * encoding, Zydis decodes that, and what the newer prefix changes is entered into the result: registers r16 to r31, a
 * third operand, flags that are kept. Where there is no older instruction, one with the same operands stands in for it.
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
 * Mnemonics in addition to those of Zydis. An instruction whose effect is not that of Zydis's mnemonic has one of
 * these, so that no code takes it for the older instruction.
 */
enum {
	NEWER_CHANGED = 0x8000, /* with an older mnemonic: the same computation, to another place or under a condition */
	NEWER_MNEMONIC = 0x4000,
	NEWER_PUSH2 = NEWER_MNEMONIC, /* pushes its first operand, then its second */
	NEWER_POP2,                   /* pops into its first operand, then into its second */
	NEWER_JMPABS,
	NEWER_VECTOR, /* any instruction on vectors, such as those of AVX10.2 */
	NEWER_ROW,    /* plus the number of a row of newer.c's table */
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

/* Decodes one instruction as ZydisDecoderDecodeFull() would. Returns false if it is none of those known here. */
bool newer_decode(const uint8_t *bytes, size_t avail, ZydisDecodedInstruction *z, ZydisDecodedOperand *ops);

/* Writes the disassembly of such an instruction. Returns false if it is none of those known here. */
bool newer_text(bool intel, const uint8_t *bytes, size_t avail, char *out, size_t out_size);

/*
 * Given bytes that no decoder knows: are they an opcode of a part of the opcode map in which extensions are added?
 * These parts follow VEX, EVEX, REX2 or XOP, or are 0f 38, 0f 3a and the groups of 0f. Other unknown bytes are invalid
 * on every processor.
 */
bool newer_is_reserved(const uint8_t *bytes, size_t avail);

#endif
