/* SPDX-License-Identifier: MIT */
/*
 * The functions of a Go program, whether it is stripped or not: the Go linker writes a table of them to .gopclntab for
 * the program's own use (Go 1.18 and later; runtime/symtab.go and cmd/link/internal/ld/pcln.go define the format).
 */
#ifndef ELF_PCLNTAB_H
#define ELF_PCLNTAB_H

#include "elf/file.h"

struct go_function {
	uint64_t start, end; /* end: the start of the next function, so that padding is included */
	bool top;            /* the runtime marks it as the outermost frame (abi.FuncFlagTopFrame) */
	const char *name;    /* points into the file's bytes */
};

/*
 * Reads the functions, sorted by start; malloc'd. Returns their number, 0 if the file has no such table, or one that is
 * malformed or that the runtime's moduledata does not confirm, or -1 and a message.
 */
long go_functions_read(const struct elf_file *f, struct go_function **out, struct error *e);

#endif
