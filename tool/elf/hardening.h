/* SPDX-License-Identifier: MIT */
/* How a file asks to be loaded and run, as far as that protects it: program headers, dynamic
 * section and the property note (gABI; x86-64 psABI, "Program Property"). */
#ifndef ELF_HARDENING_H
#define ELF_HARDENING_H

#include "elf/file.h"

enum elf_relro {
	RELRO_NONE,
	RELRO_PARTIAL, /* but slots of the PLT are written while it runs */
	RELRO_FULL,
};

enum elf_stack {
	STACK_UNMARKED, /* the file does not say: loaders differ */
	STACK_PLAIN,
	STACK_EXECUTABLE,
};

struct elf_hardening {
	enum elf_relro relro; /* linked files */
	enum elf_stack stack;
	bool pie;             /* a program that can be loaded anywhere */
	bool is_static;       /* a program that asks for no dynamic linker */
	bool ibt, shstk;      /* says so in its property note: control-flow enforcement (CET) */
};

void elf_hardening_read(const struct elf_file *f, struct elf_hardening *out);
const char *elf_relro_name(enum elf_relro r); /* "none", "partial", "full" */
const char *elf_stack_name(enum elf_stack s); /* "unmarked", "not executable", "executable" */

#endif
