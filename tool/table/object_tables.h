/* SPDX-License-Identifier: MIT */
/*
 * The tables of an object file: sections with relocations, one of each kind per
 * section of code or data that its entries are about, so that the linker keeps
 * and drops them together. Formats: docs/formats.md.
 */
#ifndef TABLE_OBJECT_TABLES_H
#define TABLE_OBJECT_TABLES_H

#include "elf/object_write.h"
#include "site/site.h"

struct object_tables {
	struct new_section *sections;
	size_t count;
};

int object_tables_build(const struct scan *s, struct object_tables *out, struct error *e);
void object_tables_free(struct object_tables *t);

/*
 * What tables an object file already has: marks their sections (and those of
 * their relocations) in `emptied`, one bool per section. Returns 1 when they say
 * exactly what `wanted` says, so that there is nothing to do; 0 when not; -1 and
 * a message when they are malformed.
 */
int object_tables_present(const struct elf_file *f, const struct object_tables *wanted, bool *emptied,
                          struct error *e);

#endif
