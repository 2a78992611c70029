/* SPDX-License-Identifier: MIT */
/*
 * raise.h: the functions that entry_x86.S calls (raise.c).
 */
#ifndef ETCH_LIB_EXCEPTIONS_RAISE_H
#define ETCH_LIB_EXCEPTIONS_RAISE_H

#include "exceptions/frame.h"
#include "exceptions/gcc_abi.h"

/* entry_x86.S knows this layout. */
struct entry {
	struct frame came;          /* the caller's registers */
	uint64_t land[FRAME_COUNT]; /* registers, stack pointer and address of the landing pad */
	uint64_t cfa;               /* the frame's stack pointer at its call */
	uint64_t rax, rdx;
};

int exceptions_raise(struct exception *e, struct entry *entry);
int exceptions_resume(struct exception *e, struct entry *entry);
int exceptions_rethrow(struct exception *e, struct entry *entry);

#endif
