/* SPDX-License-Identifier: MIT */
/*
 * frame.h: a frame of the stack, as far as a landing in it needs it.
 */
#ifndef ETCH_LIB_EXCEPTIONS_FRAME_H
#define ETCH_LIB_EXCEPTIONS_FRAME_H

#include <stdint.h>

/* entry_x86.S stores and loads the registers in this order. */
enum frame_register {
	FRAME_RBX,
	FRAME_RBP,
	FRAME_R12,
	FRAME_R13,
	FRAME_R14,
	FRAME_R15,
	FRAME_SAVED, /* the number of registers, except rsp, that a callee preserves */
	FRAME_RSP = FRAME_SAVED,
	FRAME_RIP, /* a return address */
	FRAME_COUNT,
};

/* The registers of a frame, by enum frame_register. */
struct frame {
	uint64_t reg[FRAME_COUNT];
};

/* A word of the stack. */
typedef uint64_t __attribute__((may_alias)) stack_word;

static inline uint64_t stack_load(uint64_t at) { return *(const stack_word *)(uintptr_t)at; }

#endif
