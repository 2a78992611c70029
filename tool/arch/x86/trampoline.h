/* SPDX-License-Identifier: MIT */
/* The trampolines that Python generates at run time to call each of its functions, so that perf sees them (Python's
 * Objects/perf_trampoline.c, Python/asm_trampoline.S). They are copies of one piece of code. */
#ifndef ARCH_X86_TRAMPOLINE_H
#define ARCH_X86_TRAMPOLINE_H

#include <stdbool.h>
#include <stdint.h>

#define TRAMPOLINE_BYTES 64 /* enough to recognize one: the first two copies fit in */

struct trampoline {
	uint8_t stride;    /* bytes from one copy to the next */
	uint8_t pushed_at; /* from this offset up to ret_at, 8 more bytes are on the stack */
	uint8_t ret_at;    /* offset of the return instruction */
	uint8_t call_end;  /* offset of the return address of its call */
	bool saves_rbp;    /* the 8 bytes are the caller's rbp */
};

/* Does memory begin with copies of a trampoline? Then *out describes it. */
bool trampoline_recognize(const uint8_t bytes[TRAMPOLINE_BYTES], struct trampoline *out);

#endif
