/* SPDX-License-Identifier: MIT */
/*
 * The exception table of a file (code/fixups.h): is each entry what etch/extable.h asks
 * of it, and, in a linked file, in the order that libetch searches. Format:
 * docs/formats.md.
 */
#ifndef TABLE_EX_TABLE_H
#define TABLE_EX_TABLE_H

#include "code/fixups.h"
#include "report/finding.h"

/* What is wrong with entries: ETCH-X001 to X007, in order of address. -1: out of memory. */
int ex_table_check(const struct elf_file *f, const struct code_space *space, const struct fixups *x,
                   struct findings *out, struct error *e);

/*
 * Sorts the tables of a linked file in its own bytes: by address of the instruction,
 * entries of code that the linker dropped as twelve zero bytes, which refer to their own
 * place, where that is in the order. A table with a malformed entry, or whose entries
 * somebody else relocates, stays as it is; *dropped counts the empty entries.
 */
int ex_table_sort(struct elf_file *f, const struct fixups *x, size_t *dropped, struct error *e);

/* Why a table is not sorted, a phrase; null: it is, or it can be. */
const char *ex_table_fixed(const struct elf_file *f, const struct fixup_table *t);

/* "plain", "efault", "zero", "len"; "?". */
const char *ex_type_name(uint32_t data);

#endif
