/* SPDX-License-Identifier: MIT */
/* Finds possible return addresses: every address directly after bytes that encode a call. */
#ifndef X86_CALLSITES_H
#define X86_CALLSITES_H

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

#endif
