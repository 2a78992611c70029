/* SPDX-License-Identifier: MIT */
/*
 * valgrind.h: requests to valgrind (its valgrind.h), which recognizes four rotations and an exchange as a request.
 * Outside valgrind they have no effect, because the rotations add up to 128 bits.
 */
#ifndef ETCH_LIB_COMMON_VALGRIND_H
#define ETCH_LIB_COMMON_VALGRIND_H

#include <stdint.h>

enum valgrind_request {
	VALGRIND_RUNNING = 0x1001,              /* under how many valgrinds does this process run? */
	VALGRIND_DISCARD_TRANSLATIONS = 0x1002, /* address, size: this code has changed */
};

/* Returns 0 if the process does not run under valgrind. */
static inline uint64_t valgrind_request(enum valgrind_request what, uint64_t a, uint64_t b)
{
	uint64_t request[6] = {what, a, b, 0, 0, 0}, result = 0;

	__asm__ __volatile__("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
	                     "xchgq %%rbx, %%rbx"
	                     : "+d"(result)
	                     : "a"(request)
	                     : "cc", "memory");
	return result;
}

#endif
