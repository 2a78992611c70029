/* SPDX-License-Identifier: MIT */
/*
 * An instruction without what only says where it and what it refers to lie: two builds
 * of the same code are the same sequence of these (diff/body.h).
 */
#ifndef X86_NORMAL_H
#define X86_NORMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NORMAL_MOST 16 /* no instruction has more than 15 bytes (SDM 2, 2.3.11) */

struct normal {
	uint64_t addr;
	uint64_t target;  /* of a direct branch or call, or of a pc-relative operand */
	int64_t disp, imm; /* as encoded, sign-extended */
	uint8_t code[NORMAL_MOST]; /* direct branch: prefixes and opcode, in the form with the longest
	                            * reach; others: as encoded, with a pc-relative displacement zero */
	uint8_t code_len, len;
	uint8_t flow;     /* enum insn_flow */
	uint8_t disp_at, disp_len; /* place in the bytes; len 0: none */
	uint8_t imm_at, imm_len;
	bool branch;      /* target is a direct branch's or call's */
	bool pc;          /* target is what a pc-relative operand refers to */
	bool based;       /* the memory operand has a register in its address */
	bool segment;     /* fs or gs */
	bool nop;         /* does nothing, of any length */
	bool trap;        /* int3 */
};

/* False: the bytes are no instruction, or more than avail. */
bool normal_decode(const uint8_t *bytes, size_t avail, uint64_t addr, struct normal *out);

/* Bytes that the explicit memory operand reads or writes; 0: only its address is computed. */
unsigned normal_access(const uint8_t *bytes, size_t avail);

#endif
