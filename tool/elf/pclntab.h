/* SPDX-License-Identifier: MIT */
/*
 * The functions of a Go program, stripped or not: the Go linker leaves a table of them
 * in .gopclntab for the program's own use (Go 1.18 and later; the format is that of
 * runtime/symtab.go and cmd/link/internal/ld/pcln.go).
 */
#ifndef ELF_PCLNTAB_H
#define ELF_PCLNTAB_H

#include "elf/file.h"

struct go_function {
	uint64_t start, end; /* end: where the next one starts; there may be padding before it */
	bool top;            /* the runtime's mark for where a stack ends (abi.FuncFlagTopFrame) */
	const char *name;    /* in the file's bytes */
};

/*
 * By start; malloc'd. Returns their number; 0 where the file has no such table, or one that
 * is malformed or that the module data of the runtime does not confirm; -1: out of memory.
 */
long go_functions_read(const struct elf_file *f, struct go_function **out, struct error *e);

#endif
