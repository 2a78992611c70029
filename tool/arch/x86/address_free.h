/* SPDX-License-Identifier: MIT */
/*
 * An instruction as it is compared between builds: without the fields that depend only on its own address and on the
 * addresses of its operands. Two builds of the same code are equal as sequences of such instructions (diff/body.h).
 */
#ifndef X86_ADDRESS_FREE_H
#define X86_ADDRESS_FREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NORMAL_MOST 16 /* an instruction has at most 15 bytes (SDM vol. 2, 2.3.11) */

/* An instruction without addresses. */
struct normal {
	uint64_t addr;
	uint64_t target;   /* address that a direct branch or call, or a rip-relative operand, refers to */
	int64_t disp, imm; /* as encoded, sign-extended */
	/* The bytes to compare. For a direct branch: the prefixes, and the opcode of the branch with a 32-bit displacement,
	 * whichever it has. For other instructions: the whole encoding, with zeros in place of a rip-relative
	 * displacement. */
	uint8_t code[NORMAL_MOST];
	uint8_t code_len, len;
	uint8_t flow;              /* enum insn_flow */
	uint8_t disp_at, disp_len; /* offset in the instruction, and size, of the displacement; size 0: there is none */
	uint8_t imm_at, imm_len;
	bool branch;  /* a direct branch or call, which leads to `target` */
	bool pc;      /* `target` is the address of a rip-relative operand */
	bool based;   /* the address of the memory operand depends on a register */
	bool segment; /* the memory operand is relative to fs or gs */
	bool nop;     /* nop of any length */
	bool trap;    /* int3 */
};

/* Sets *out to the instruction at `bytes`, without addresses. Returns false if the bytes are no instruction, or if it
 * is longer than avail. */
bool normal_decode(const uint8_t *bytes, size_t avail, uint64_t addr, struct normal *out);

/* Returns the number of bytes that the explicit memory operand reads or writes; 0 if there is none, or if only its
 * address is computed. */
unsigned normal_access(const uint8_t *bytes, size_t avail);

#endif
