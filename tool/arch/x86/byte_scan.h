/* SPDX-License-Identifier: MIT */
/*
 * Scans of code that need no decoding, since they must find what they look for wherever instructions begin: possible
 * return addresses, that is, every address directly after bytes that encode a call; and possible rip-relative operands.
 * They are conservative: other bytes may look the same.
 */
#ifndef X86_BYTE_SCAN_H
#define X86_BYTE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of a section of code. */
struct call_code {
	const uint8_t *bytes;
	size_t size;
	uint64_t addr;   /* address of the first byte */
	uint64_t lo, hi; /* the executable address range of the file */
};

/*
 * Appends, in ascending order, each address that follows bytes which encode a call: E8 rel32 with a target in [lo, hi),
 * or FF /2. These bytes may start anywhere. The result is complete whatever is code and whatever is data, so it also
 * contains addresses after bytes that only look like a call. *out is malloc'd and grows; start with null and 0, and
 * pass sections in ascending order of their addresses.
 */
void callsites_find(const struct call_code *c, uint64_t **out, size_t *count);

/* Could `disp` be the displacement of a disp32(%rip) operand? Reads the byte before it. The answer may be true for
 * other bytes, but it is never false for such a displacement. */
bool x86_may_be_rip_operand(const uint8_t *disp);

/* Is `disp` the displacement of lea disp32(%rip),%r64? Reads the RIP_ADDRESS_BEFORE bytes before it. */
#define RIP_ADDRESS_BEFORE 3u
bool x86_makes_rip_address(const uint8_t *disp);

/* The number of positions that x86_rip_operands() tests at once. */
#define RIP_SCAN_WIDTH 16u
/* Answers the question of x86_may_be_rip_operand() for disp, disp + 1, ... disp + RIP_SCAN_WIDTH - 1: bit i is for disp
 * + i. Reads the RIP_SCAN_WIDTH bytes from disp - 1 on. */
unsigned x86_rip_operands(const uint8_t *disp);

#endif
