/* SPDX-License-Identifier: MIT */
/* The trampolines that Python calls its functions through (Python's Objects/perf_trampoline.c,
 * Python/asm_trampoline.S). */
#ifndef ARCH_X86_TRAMPOLINE_H
#define ARCH_X86_TRAMPOLINE_H

#include <stdbool.h>
#include <stdint.h>

#define TRAMPOLINE_BYTES 64 /* that decide: the first two copies are among them */

struct trampoline {
	uint8_t stride;    /* from one copy to the next */
	uint8_t pushed_at; /* from here on, 8 bytes more are on the stack, ... */
	uint8_t ret_at;    /* ... up to here: the return */
	uint8_t call_end;  /* the return address of its call */
	bool saves_rbp;    /* the 8 bytes are the caller's rbp */
};

/* Does memory begin with copies of a trampoline? */
bool trampoline_recognize(const uint8_t bytes[TRAMPOLINE_BYTES], struct trampoline *out);

#endif
