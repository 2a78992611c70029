/* SPDX-License-Identifier: MIT */
/*
 * Checks and sorts the exception table of a file (analysis/facts/fixups.h). Each entry must be as etch/extable.h
 * requires, and the table of a linked file must be in the order in which libetch searches it. Format:
 * docs/formats.md.
 */
#ifndef TABLE_EX_TABLE_H
#define TABLE_EX_TABLE_H

#include "analysis/facts/fixups.h"
#include "report/finding.h"

/* Adds findings ETCH-X001 to X007 about wrong entries, in order of address. Returns 0, or -1 with a message in *e. */
int ex_table_check(const struct elf_file *f, const struct code_space *space, const struct fixups *x,
                   struct findings *out, struct error *e);

/*
 * Sorts the tables of a linked file by the address of the instruction, changing f's bytes. An entry whose code the
 * linker has discarded becomes twelve zero bytes. Such an entry refers to its own address, so it is placed where that
 * address belongs in the order. A table stays as it is if an entry is malformed or if its entries have relocations.
 * Sets *dropped to the number of empty entries.
 */
int ex_table_sort(struct elf_file *f, const struct fixups *x, size_t *dropped, struct error *e);

/* Returns a phrase that says in a message why a table cannot be sorted, or null if it can be. */
const char *ex_table_fixed(const struct elf_file *f, const struct fixup_table *t);

/* Returns the name of an entry's type: "plain", "efault", "zero" or "len"; "?" if it is unknown. */
const char *ex_type_name(uint32_t data);

#endif
