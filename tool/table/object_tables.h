/* SPDX-License-Identifier: MIT */
/*
 * The tables of an object file: sections with relocations, one of each kind per section of code or data that the
 * entries describe, so that the linker keeps and discards them together. Formats: docs/formats.md.
 */
#ifndef TABLE_OBJECT_TABLES_H
#define TABLE_OBJECT_TABLES_H

#include "output/object_write.h"

#include <etch/format.h>

struct object_tables {
	bool imv, pv; /* which tables of sites are made; __etch_obj is always made */
	struct new_section *sections;
	size_t count;
};

/* Target of a reference in a table. */
struct table_ref {
	enum {
		REF_SECTION, /* section `index` + off */
		REF_SYMBOL,  /* symbol `index` + off: undefined here, or may be preempted */
		REF_SLOT,    /* the GOT slot of symbol `index` */
	} kind;
	uint32_t index;
	int64_t off;
};

/* Each adds an entry. `section` is the code or data that the entry describes, `at` an offset in it. The form of a site
 * decides which table it goes to; `more` counts only with ETCH_IMV_MORE. */
void object_tables_site(struct object_tables *t, uint32_t section, uint64_t at, const struct etch_imv *entry,
                        const struct etch_imv_more *more, const struct table_ref *object);
/* `what` is the record, except for its references. */
void object_tables_object(struct object_tables *t, uint32_t section, uint64_t at, const struct etch_obj *what,
                          const char *name);
void object_tables_fact(struct object_tables *t, uint32_t section, uint64_t at, enum etch_obj_kind kind,
                        const struct table_ref *object);
void object_tables_free(struct object_tables *t);

/*
 * Finds the tables of an object file, of the kinds that are made, and marks their sections and those of their
 * relocations in `emptied`, one bool per section. Returns 1 if they are equal to `wanted`; 0 if they are not; -1 and a
 * message if they are malformed.
 */
int object_tables_present(const struct elf_file *f, const struct object_tables *wanted, bool *emptied, struct error *e);

#endif
