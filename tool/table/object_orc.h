/* SPDX-License-Identifier: MIT */
/*
 * The unwind rows of an object file as .orc_unwind_ip and .orc_unwind: one pair per section of code, with
 * SHF_LINK_ORDER to it and in its COMDAT group, so that the linker keeps, discards and orders them together.
 * Formats: docs/formats.md.
 */
#ifndef TABLE_OBJECT_ORC_H
#define TABLE_OBJECT_ORC_H

#include "analysis/facts/space.h"
#include "output/object_write.h"
#include "table/unwind_tables.h"

struct object_orc {
	struct new_section *sections;
	size_t count;
	size_t rows, lost; /* lost: rules that do not fit an entry, and are written as UNDEFINED */
};

/* Makes the sections. Each pair ends with an UNDEFINED row; a section of code without rules gets none. */
void object_orc_build(const struct code_space *space, const struct row_list *rows, struct object_orc *out);
void object_orc_free(struct object_orc *t);

/*
 * Finds the arrays of an object file, and marks their sections and those of their relocations in `emptied`, one bool
 * per section. Returns 1 if they are equal to `wanted`; 0 if they are not; -1 and a message if they are another tool's.
 */
int object_orc_present(const struct elf_file *f, const struct object_orc *wanted, bool *emptied, struct error *e);

/* Reads the rows of an object file's arrays, in addresses of `space`. Returns 1 if it has read them; 0 if there are
 * none; -1 and a message if they are malformed. */
int object_orc_rows(const struct elf_file *f, const struct code_space *space, struct row_list *out, struct error *e);

/*
 * Sorts, in f's own bytes, every .orc_unwind_ip and .orc_unwind that the linker has concatenated from object files.
 * Entries of discarded code are moved to the end as UNDEFINED. *rows is the number of rows. Returns 0, or -1 and a
 * message.
 */
int object_orc_sort(struct elf_file *f, size_t *rows, struct error *e);

#endif
