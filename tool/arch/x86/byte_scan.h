/* SPDX-License-Identifier: MIT */
/*
 * Scans of code byte by byte, without decoding, so that the results do not depend on where instructions begin. One
 * finds possible return addresses, that is, every address directly after bytes that encode a call. Others find possible
 * rip-relative operands. These miss none, but may also report bytes that only look like one. The last two look at the
 * code of one function.
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

/* Returns the target of the direct call with which code at `addr` ends, if its last bytes look like one, or 0. */
uint64_t code_last_call(const uint8_t *bytes, size_t size, uint64_t addr);
/* May code contain a return? Returns true also if other bytes look like one; returns false for far returns and those
 * that pop arguments, which are rare. */
bool code_may_return(const uint8_t *bytes, size_t size);

/* Could the four bytes at `disp` be the displacement of a disp32(%rip) operand? Never returns false for such a
 * displacement, but may return true for other bytes. Reads only the byte before `disp`. */
bool x86_may_be_rip_operand(const uint8_t *disp);

/* Are the four bytes at `disp` the displacement of lea disp32(%rip),%r64? Reads the RIP_ADDRESS_BEFORE bytes before
 * `disp`. */
#define RIP_ADDRESS_BEFORE 3u
bool x86_makes_rip_address(const uint8_t *disp);

/* The number of positions that x86_rip_operands() tests at once. */
#define RIP_SCAN_WIDTH 16u
/* Tests RIP_SCAN_WIDTH positions at once: returns a mask whose bit i is x86_may_be_rip_operand(disp + i). Reads the
 * RIP_SCAN_WIDTH bytes from disp - 1 on. */
unsigned x86_rip_operands(const uint8_t *disp);

#endif
