/* SPDX-License-Identifier: MIT */
/*
 * recover.h: callee-saved registers of outer frames (recover.c).
 */
#ifndef ETCH_RECOVER_H
#define ETCH_RECOVER_H

#include "unwind_internal.h"

/* The module that an address is in: 1, or 0. Async-signal-safe. */
typedef int recover_image_fn(uint64_t at, struct prepare_image *im);

/* Registers that a callee may change. */
#define RECOVER_SCRATCH \
	(1u << ETCH_RAX | 1u << ETCH_RCX | 1u << ETCH_RDX | 1u << ETCH_RSI | 1u << ETCH_RDI | 1u << ETCH_R8 | \
	 1u << ETCH_R9 | 1u << ETCH_R10 | 1u << ETCH_R11)

/*
 * A register in the frame (rip, rsp) of this process. reg: all registers (enum etch_reg) of
 * an interrupted frame below it on the same stack. One of RECOVER_SCRATCH only where that
 * frame was called from here, and then it is as good as .eh_frame's word for it: the caller has
 * to look at what comes of it. 0, or -1: .eh_frame does not say. Async-signal-safe; 2 KiB of stack.
 */
int recover_register(const uint64_t reg[17], uint64_t rip, uint64_t rsp, unsigned want, recover_image_fn *image,
                     uint64_t *value);

#endif
