/* SPDX-License-Identifier: MIT */
/* Finds the functions of other modules that a linked file calls, by the GOT slots that hold their addresses. In a
 * static program, finds the functions of the C library by their symbols. */
#ifndef ANALYSIS_ADDRESSES_IMPORTS_H
#define ANALYSIS_ADDRESSES_IMPORTS_H

#include "analysis/addresses/kernel_stores.h"
#include "arch/x86/insn.h"
#include "elf/dynamic.h"
#include "dwarf/types.h"

/* A C library function in a static program that lets the kernel store to the program's memory. */
struct kernel_function {
	uint64_t addr;
	const struct kernel_store *store;
};

/* What is known of a file's imports. */
struct imports {
	const struct elf_file *file;
	const struct function_types *types;
	struct dynamic_reloc *slots; /* relocations of GOT slots, sorted by the address of the slot */
	size_t slot_count;
	struct kernel_function *functions; /* sorted by address */
	size_t function_count;
};

/* Finds the imports of a file; none are found if its relocations are malformed. *x then refers to *f and *types.
 * imports_free() frees it. */
void imports_read(struct imports *x, const struct elf_file *f, const struct function_types *types);
void imports_free(struct imports *x);
/* Does a call or jump lead to a function of another module, through a GOT slot or the PLT? x may be null. */
bool imports_leads_out(const struct imports *x, const struct insn *in);
/* Returns the largest number of words that a call or jump passes in general registers to a function of another module,
 * according to the prototypes in the file's DWARF; -1 if it is unknown. x may be null. */
int imports_arguments(const struct imports *x, const struct insn *in);
/* Returns where the kernel may store when the function that a call or jump leads to makes system calls. Returns null if
 * the kernel stores nowhere, or if the function neither belongs to another module nor is one of the C library. x may be
 * null. */
const struct kernel_store *imports_kernel(const struct imports *x, const struct insn *in);

#endif
