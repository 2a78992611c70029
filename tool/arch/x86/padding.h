/* SPDX-License-Identifier: MIT */
/*
 * Padding between functions. Assemblers and linkers write nops of any length, int3, hlt, ud2 or zero bytes there.
 *
 * Zero bytes are the hard case, since `00 00` is also add %al, (%rax). They are padding only where control does not
 * arrive: the caller must know that the instruction before them does not fall through, or that they end where a
 * function begins. If their number is odd, linear decoding swallows the first byte of what follows.
 */
#ifndef X86_PADDING_H
#define X86_PADDING_H

#include "arch/x86/fast_decoder.h"

/* Is a byte the one with which lld fills the last page of a code segment, if segments do not share pages? It is int3,
 * which traps. */
static inline bool x86_is_fill(uint8_t byte) { return byte == 0xcc; }

/* Returns the number of zero bytes at the start. */
size_t padding_zeros(const uint8_t *bytes, size_t avail);
/*
 * The bytes follow a call. If they begin with zero bytes that show that this call does not return, returns their
 * number; else 0. They show it if they reach up to a multiple of `align`, where a function may begin, or if they are
 * more than one instruction: no compiler emits add %al, (%rax) twice.
 */
size_t padding_after_call(const uint8_t *bytes, size_t avail, uint64_t addr, unsigned align);
/*
 * Returns the number of bytes of padding at the start of `bytes`, given that control does not arrive there. *filler,
 * unless it is null, becomes true if int3 or zero bytes are among them: compilers put neither in front of a loop or
 * another block of a function. The cache may be null.
 */
size_t padding_size(struct step_cache *cache, const uint8_t *bytes, size_t avail, uint64_t addr, bool *filler);

#endif
