/* SPDX-License-Identifier: MIT */
/*
 * The unwind rows of an object file as sections .orc_unwind_ip and .orc_unwind. Each section of code has one such pair.
 * The pair has SHF_LINK_ORDER to the section of code and is in its COMDAT group, so that the linker keeps, discards and
 * orders them together. Formats: docs/formats.md.
 */
#ifndef TABLE_OBJECT_ORC_H
#define TABLE_OBJECT_ORC_H

#include "analysis/facts/space.h"
#include "output/object_write.h"
#include "table/unwind_tables.h"

/* The sections, and counts. */
struct object_orc {
	struct new_section *sections;
	size_t count;
	size_t rows, lost; /* lost: number of rules that do not fit an entry, and are written as UNDEFINED */
};

/* Makes the sections. Each pair ends with an UNDEFINED row. A section of code in which no row has a rule gets no
 * pair. */
void object_orc_build(const struct code_space *space, const struct row_list *rows, struct object_orc *out);
void object_orc_free(struct object_orc *t);

/*
 * Looks for these arrays in an object file. Sets emptied[i] for the index i of each section that is such an array or
 * has its relocations. Returns 1 if the arrays equal `wanted`; 0 if they do not; -1 with a message in *e if another
 * tool made them.
 */
int object_orc_present(const struct elf_file *f, const struct object_orc *wanted, bool *emptied, struct error *e);

/* Reads the rows in the arrays of an object file, with addresses of `space`. Returns 1 if there are any; 0 if there are
 * none; -1 with a message in *e if they are malformed. */
int object_orc_rows(const struct elf_file *f, const struct code_space *space, struct row_list *out, struct error *e);

/*
 * Sorts every .orc_unwind_ip and .orc_unwind that the linker has concatenated from object files, changing f's bytes.
 * Entries for discarded code are moved to the end as UNDEFINED. Sets *rows to the number of rows. Returns 0, or -1 with
 * a message in *e.
 */
int object_orc_sort(struct elf_file *f, size_t *rows, struct error *e);

#endif
