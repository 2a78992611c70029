/* SPDX-License-Identifier: MIT */
/* Recognizes, by their bytes, instructions of control-flow enforcement (SDM vol. 1, 17.3) and of
 * straight-line-speculation hardening. */
#ifndef X86_CET_H
#define X86_CET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is it endbr64, which marks a valid target of tracked indirect calls and jumps? */
bool insn_is_endbr(const uint8_t *bytes, size_t avail);
/* Has an indirect call or jump of `len` bytes a notrack prefix, so that its target needs no endbr64? */
bool insn_is_notrack(const uint8_t *bytes, size_t len);
/* Is the instruction of `len` bytes a lea of an address relative to its own end? Then *distance is how far that is. */
bool insn_takes_near_address(const uint8_t *bytes, size_t len, int32_t *distance);
/* Is it int3, which stops straight-line speculation? */
bool insn_is_int3(const uint8_t *bytes, size_t avail);

#endif
