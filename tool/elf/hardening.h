/* SPDX-License-Identifier: MIT */
/* Reads the hardening that a file asks its loader for from its program headers, its dynamic section and its property
 * note (gABI; x86-64 psABI, "Program Property"). */
#ifndef ELF_HARDENING_H
#define ELF_HARDENING_H

#include "elf/file.h"

enum elf_relro {
	RELRO_NONE,
	RELRO_PARTIAL, /* .got.plt stays writable, for lazy binding */
	RELRO_FULL,
};

enum elf_stack {
	STACK_UNMARKED, /* no PT_GNU_STACK: the loader decides */
	STACK_PLAIN,
	STACK_EXECUTABLE,
};

struct elf_hardening {
	enum elf_relro relro; /* linked files only */
	enum elf_stack stack;
	bool pie;        /* position-independent program */
	bool is_static;  /* program without PT_INTERP */
	bool ibt, shstk; /* control-flow enforcement (CET), from the property note */
};

void elf_hardening_read(const struct elf_file *f, struct elf_hardening *out);
const char *elf_relro_name(enum elf_relro r); /* "none", "partial", "full" */
const char *elf_stack_name(enum elf_stack s); /* "unmarked", "not executable", "executable" */

#endif
