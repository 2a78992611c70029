/* SPDX-License-Identifier: MIT */
/* The trampolines through which Python calls its functions (Python's Objects/perf_trampoline.c,
 * Python/asm_trampoline.S). */
#ifndef ARCH_X86_TRAMPOLINE_H
#define ARCH_X86_TRAMPOLINE_H

#include <stdbool.h>
#include <stdint.h>

#define TRAMPOLINE_BYTES 64 /* enough to recognize one: they contain the first two copies */

struct trampoline {
	uint8_t stride;    /* bytes from one copy to the next */
	uint8_t pushed_at; /* offset from which on 8 more bytes are on the stack, ... */
	uint8_t ret_at;    /* ... up to this offset, that of the return */
	uint8_t call_end;  /* offset of the return address of its call */
	bool saves_rbp;    /* the 8 bytes are the caller's rbp */
};

/* Does memory begin with copies of a trampoline? Then *out describes it. */
bool trampoline_recognize(const uint8_t bytes[TRAMPOLINE_BYTES], struct trampoline *out);

#endif
