/* SPDX-License-Identifier: MIT */
/*
 * Addresses that can be return addresses because a call may end there.
 */
#ifndef X86_CALLSITES_H
#define X86_CALLSITES_H

#include <stddef.h>
#include <stdint.h>

/*
 * Appends, ascending, every address behind bytes that are a call when they are
 * executed from somewhere: E8 rel32 into [lo, hi), the file's executable range, and
 * FF /2, at any byte of `bytes` (at address addr). No call is missed, whatever is code
 * and whatever is data; bytes that only look like one are in too. *out is malloc'd
 * and grows; start with null and 0, and go through sections by address. -1: out of
 * memory.
 */
int callsites_find(const uint8_t *bytes, size_t size, uint64_t addr, uint64_t lo, uint64_t hi, uint64_t **out,
                   size_t *count);

#endif
