/* SPDX-License-Identifier: MIT */
/*
 * Instructions that are newer than the Zydis of Debian 12 (4.0): Intel's APX, and the extensions in newer.c's table.
 *
 * An APX instruction is an older one with another prefix: REX2 (d5), or EVEX map 4. So it is rewritten to the older
 * encoding, which Zydis decodes, and what the newer prefix changes is entered into the result: r16 to r31, a third
 * operand, flags that are kept. Where there is no older instruction, one with the same operands stands in for it.
 *
 * Capstone 4 knows none of these: none of them is ever rewritten (insn_confirm()).
 */
#ifndef X86_NEWER_H
#define X86_NEWER_H

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Mnemonics beside those of Zydis. An instruction whose effect is not that of Zydis's mnemonic has one of these, so
 * that no code takes it for the older one.
 */
enum {
	NEWER_CHANGED = 0x8000, /* with an older mnemonic: the same computation, to another place or under a condition */
	NEWER_MNEMONIC = 0x4000,
	NEWER_PUSH2 = NEWER_MNEMONIC, /* pushes its first operand, then its second */
	NEWER_POP2,                   /* pops into its first operand, then into its second */
	NEWER_JMPABS,
	NEWER_VECTOR, /* any instruction on vectors, as those of AVX10.2 */
	NEWER_ROW,    /* with the number of a row of newer.c's table */
};

/* Registers r16 to r31 of 8, 16, 32 and 64 bits: beyond those of Zydis, so that zydis_gpr() gives them no number. */
enum {
	NEWER_REGISTER = 0x1000,
	NEWER_R16B = NEWER_REGISTER,
	NEWER_R16W = NEWER_R16B + 16,
	NEWER_R16D = NEWER_R16W + 16,
	NEWER_R16 = NEWER_R16D + 16,
	NEWER_REGISTERS_END = NEWER_R16 + 16,
};

static inline bool newer_is_register(unsigned r) { return r >= NEWER_REGISTER && r < NEWER_REGISTERS_END; }

/* Decodes one instruction as ZydisDecoderDecodeFull() would. False: it is none of those known here. */
bool newer_decode(const uint8_t *bytes, size_t avail, ZydisDecodedInstruction *z, ZydisDecodedOperand *ops);

/* Writes its disassembly. False: as above. */
bool newer_text(bool intel, const uint8_t *bytes, size_t avail, char *out, size_t out_size);

/*
 * Are the bytes, which no decoder knows, an opcode of those parts of the opcode map in which extensions are added:
 * after VEX, EVEX, REX2 or XOP, or 0f 38, 0f 3a and the groups of 0f? Others are invalid on every processor.
 */
bool newer_is_reserved(const uint8_t *bytes, size_t avail);

#endif
