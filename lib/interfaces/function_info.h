/* SPDX-License-Identifier: MIT */
/*
 * function_info.h: what .eh_frame and the symbol tables say about the function at an address (function_info.c).
 * Async-signal-safe; errno is left alone.
 */
#ifndef ETCH_LIB_INTERFACES_FUNCTION_INFO_H
#define ETCH_LIB_INTERFACES_FUNCTION_INFO_H

#include <stddef.h>
#include <stdint.h>

/* The contents of the FDE that covers an address; run-time addresses. */
struct function_info {
	uint64_t start, end;
	uint64_t lsda;        /* 0: none */
	uint64_t personality; /* 0: none */
};

/* Returns 1, or 0 if no FDE covers the address. */
int function_info(uint64_t at, struct function_info *out);

/*
 * Copies the name of the function that contains an address, as the symbol table of its module's file has it (.symtab,
 * else .dynsym); the name is cut off to fit `size`, with a final 0. *offset (may be null) gets the distance from the
 * function's start. Returns 1, 0 if no symbol covers the address, or -1 if the name was cut off. Opens and maps the
 * file.
 */
int function_name(uint64_t at, char *name, size_t size, uint64_t *offset);

#endif
