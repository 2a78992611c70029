/* SPDX-License-Identifier: MIT */
/*
 * An instruction without the fields that only depend on its own address and on those of its operands: two builds of
 * the same code are equal sequences of these (diff/body.h).
 */
#ifndef X86_NORMAL_H
#define X86_NORMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NORMAL_MOST 16 /* an instruction has at most 15 bytes (SDM vol. 2, 2.3.11) */

/* An instruction without addresses. */
struct normal {
	uint64_t addr;
	uint64_t target;   /* of a direct branch or call, or of a rip-relative operand */
	int64_t disp, imm; /* as encoded, sign-extended */
	/* Direct branch: prefixes and the opcode of the form with a 32-bit displacement. Others: the encoding, with
	 * zeros for a rip-relative displacement. */
	uint8_t code[NORMAL_MOST];
	uint8_t code_len, len;
	uint8_t flow;              /* enum insn_flow */
	uint8_t disp_at, disp_len; /* offset in the bytes and size; size 0: none */
	uint8_t imm_at, imm_len;
	bool branch;  /* a direct branch or call: `target` is where it goes */
	bool pc;      /* `target` is the address of a rip-relative operand */
	bool based;   /* the address of the memory operand has a register */
	bool segment; /* fs or gs */
	bool nop;     /* nop of any length */
	bool trap;    /* int3 */
};

/* False: the bytes are no instruction, or it is longer than avail. */
bool normal_decode(const uint8_t *bytes, size_t avail, uint64_t addr, struct normal *out);

/* Bytes that the explicit memory operand reads or writes; 0: none, or only its address is computed. */
unsigned normal_access(const uint8_t *bytes, size_t avail);

#endif
