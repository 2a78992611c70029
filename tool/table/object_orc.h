/* SPDX-License-Identifier: MIT */
/*
 * The unwind rows of an object file as .orc_unwind_ip and .orc_unwind: one of each
 * per section of code, SHF_LINK_ORDER to it and in its COMDAT group, so that the
 * linker keeps, drops and orders them together. Formats: docs/formats.md.
 */
#ifndef TABLE_OBJECT_ORC_H
#define TABLE_OBJECT_ORC_H

#include "code/space.h"
#include "elf/object_write.h"
#include "table/unwind_tables.h"

struct object_orc {
	struct new_section *sections;
	size_t count;
	size_t rows, lost; /* lost: rules that do not fit an entry, written as UNDEFINED */
};

/* An UNDEFINED row ends each section. Sections of which nothing is known get none. */
int object_orc_build(const struct code_space *space, const struct row_list *rows, struct object_orc *out,
                     struct error *e);
void object_orc_free(struct object_orc *t);

/*
 * What arrays an object file has already: marks their sections (and those of their
 * relocations) in `emptied`, one bool per section. Returns 1 when they say exactly what
 * `wanted` says; 0 when not; -1 and a message when they are another tool's.
 */
int object_orc_present(const struct elf_file *f, const struct object_orc *wanted, bool *emptied, struct error *e);

/* The rows that an object file's arrays hold, in the addresses of `space`: 1, 0 when it
 * has none, -1 and a message when they are malformed. */
int object_orc_rows(const struct elf_file *f, const struct code_space *space, struct row_list *out, struct error *e);

#endif
