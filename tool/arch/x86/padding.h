/* SPDX-License-Identifier: MIT */
/*
 * Padding between functions. Assemblers and linkers fill it with nops of any length, int3, hlt, ud2 or zero bytes.
 *
 * Zero bytes are the hard case, since `00 00` is also add %al, (%rax). They are padding only where control does not
 * arrive: the caller must know that the instruction before them does not fall through, or that they end where a
 * function begins. An odd number of them makes linear decoding swallow the first byte of what follows.
 */
#ifndef X86_PADDING_H
#define X86_PADDING_H

#include "arch/x86/fast_decoder.h"

/* The number of zero bytes at the start. */
size_t padding_zeros(const uint8_t *bytes, size_t avail);
/*
 * The number of zero bytes at the start that follow a call, if they show that it does not return: they reach up to a
 * multiple of `align`, where a function may begin, or they are more than one instruction. No compiler emits
 * add %al, (%rax) twice.
 */
size_t padding_after_call(const uint8_t *bytes, size_t avail, uint64_t addr, unsigned align);
/*
 * The number of bytes of padding at the start of bytes that control does not reach. *filler, unless null: int3 or zero
 * bytes are among it, which compilers do not put in front of a loop or a block of a function. The cache may be null.
 */
size_t padding_size(struct step_cache *cache, const uint8_t *bytes, size_t avail, uint64_t addr, bool *filler);

#endif
