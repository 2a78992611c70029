/* SPDX-License-Identifier: MIT */
/* trap_line.h: finds the source line of an instruction for trap.c, in signal context and by its rules. */
#ifndef ETCH_LIB_PATCH_TRAP_LINE_H
#define ETCH_LIB_PATCH_TRAP_LINE_H

#include <stdint.h>

/* The strings are those of the mapped file, and end inside it. */
struct trap_line {
	const char *directory; /* null: the directory of the compilation, or none */
	const char *file;
	uint64_t line;
};

/* Finds the line of the instruction at a virtual address of the ELF file of `size` bytes at `file`. Returns 0 if none
 * is known: the file has no .debug_line, or a compressed or malformed one. */
int trap_line_find(const uint8_t *file, uint64_t size, uint64_t address, struct trap_line *out);

#endif
