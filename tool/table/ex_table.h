/* SPDX-License-Identifier: MIT */
/*
 * Checks and sorts the exception table of a file (analysis/facts/fixups.h): each entry must be what etch/extable.h
 * requires, and a linked file's table must be in the order that libetch searches. Format: docs/formats.md.
 */
#ifndef TABLE_EX_TABLE_H
#define TABLE_EX_TABLE_H

#include "analysis/facts/fixups.h"
#include "report/finding.h"

/* Adds findings ETCH-X001 to X007 for wrong entries, in order of address. Returns 0, or -1 and a message. */
int ex_table_check(const struct elf_file *f, const struct code_space *space, const struct fixups *x,
                   struct findings *out, struct error *e);

/*
 * Sorts the tables of a linked file, in its own bytes, by the address of the instruction. An entry whose code the
 * linker has discarded becomes twelve zero bytes, which refer to their own address, and is placed where that address is
 * in the order. A table with a malformed entry, or whose entries have relocations, stays as it is. *dropped: number of
 * empty entries.
 */
int ex_table_sort(struct elf_file *f, const struct fixups *x, size_t *dropped, struct error *e);

/* Returns a phrase for messages that says why a table cannot be sorted, or null if it can be. */
const char *ex_table_fixed(const struct elf_file *f, const struct fixup_table *t);

/* Returns "plain", "efault", "zero" or "len"; "?" for an unknown type. */
const char *ex_type_name(uint32_t data);

#endif
