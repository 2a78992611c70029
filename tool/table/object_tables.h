/* SPDX-License-Identifier: MIT */
/*
 * The tables of an object file: sections with relocations, one of each kind per
 * section of code or data that its entries are about, so that the linker keeps
 * and drops them together. Formats: docs/formats.md.
 */
#ifndef TABLE_OBJECT_TABLES_H
#define TABLE_OBJECT_TABLES_H

#include "elf/object_write.h"

#include <etch/format.h>

struct object_tables {
	bool imv, pv; /* of these two tables of sites, which are made; __etch_obj always is */
	struct new_section *sections;
	size_t count;
};

/* What a table field refers to. */
struct table_ref {
	enum {
		REF_SECTION, /* section `index` + off */
		REF_SYMBOL,  /* symbol `index` + off: another definition may win, or there is none here */
		REF_SLOT,    /* the GOT slot of symbol `index` */
	} kind;
	uint32_t index;
	int64_t off;
};

/* All return false when memory is out. `section` is the code or data that the
 * entry is about, `at` an offset in it. A site goes to the table of its form. */
bool object_tables_site(struct object_tables *t, uint32_t section, uint64_t at, const struct etch_imv *entry,
                        const struct table_ref *object);
bool object_tables_object(struct object_tables *t, uint32_t section, uint64_t at, uint32_t size, uint8_t flags,
                          const char *name);
bool object_tables_fact(struct object_tables *t, uint32_t section, uint64_t at, enum etch_obj_kind kind,
                        const struct table_ref *object);
void object_tables_free(struct object_tables *t);

/*
 * What tables of those that are made an object file already has: marks their
 * sections (and those of their relocations) in `emptied`, one bool per section.
 * Returns 1 when they say exactly what `wanted` says, so that there is nothing to
 * do; 0 when not; -1 and a message when they are malformed.
 */
int object_tables_present(const struct elf_file *f, const struct object_tables *wanted, bool *emptied,
                          struct error *e);

#endif
