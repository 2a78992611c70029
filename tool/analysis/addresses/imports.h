/* SPDX-License-Identifier: MIT */
/* The functions of other modules that a linked file calls, found by the GOT slots that hold their addresses; in a
 * static program those of the C library, found by their symbols. */
#ifndef ANALYSIS_ADDRESSES_IMPORTS_H
#define ANALYSIS_ADDRESSES_IMPORTS_H

#include "analysis/addresses/kernel_stores.h"
#include "arch/x86/insn.h"
#include "elf/dynamic.h"
#include "dwarf/types.h"

/* A function in a static program that lets the kernel store to memory. */
struct kernel_function {
	uint64_t addr;
	const struct kernel_store *store;
};

struct imports {
	const struct elf_file *file;
	const struct function_types *types;
	struct dynamic_reloc *slots; /* sorted by place */
	size_t slot_count;
	struct kernel_function *functions; /* sorted by address */
	size_t function_count;
};

/* Reads the imports of a file; there are none if its relocations are malformed. The struct refers to *f and *types.
 * imports_free() frees it. */
void imports_read(struct imports *x, const struct elf_file *f, const struct function_types *types);
void imports_free(struct imports *x);
/* Does a call or jump lead to a function of another module, through its slot or the PLT? x may be null. */
bool imports_leads_out(const struct imports *x, const struct insn *in);
/* Returns the largest number of words in general registers that a call or jump passes to a function of another module,
 * by the prototypes in the file's DWARF; -1 if it is not known. x may be null. */
int imports_arguments(const struct imports *x, const struct insn *in);
/* Returns where the kernel may store for the function that a call or jump leads to. Returns null if it stores nowhere,
 * or if the function is neither another module's nor the C library's. x may be null. */
const struct kernel_store *imports_kernel(const struct imports *x, const struct insn *in);

#endif
