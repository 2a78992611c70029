/* SPDX-License-Identifier: MIT */
/* memory_capacity.h: how much memory the process's limits leave (memory_capacity.c). System calls only. */
#ifndef ETCH_LIB_HEAP_MEMORY_CAPACITY_H
#define ETCH_LIB_HEAP_MEMORY_CAPACITY_H

#include <stdbool.h>
#include <stdint.h>

#define MEMORY_UNLIMITED UINT64_MAX

/* The bytes that the process can still map: an eighth of a limit, if the amount in use cannot be read. */
struct memory_capacity {
	uint64_t space; /* bytes of address space: RLIMIT_AS */
	uint64_t data;  /* bytes of private writable memory: RLIMIT_DATA */
};

void memory_capacity(struct memory_capacity *r);

/* May the recorder take this many more bytes? Under a limit it takes at most half of what is left at a time and
 * leaves the rest to the program, whose stack, for example, grows without a call that could be tried again. */
bool memory_may_take(uint64_t size, bool is_private);

#endif
