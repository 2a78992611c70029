/* SPDX-License-Identifier: MIT */
/*
 * The tables of an object file. They are sections with relocations. Each section of code or data that entries describe
 * has a section of its own for each kind of table, so that the linker keeps and discards them together. Formats:
 * docs/formats.md.
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

/* The target of a reference in a table. */
struct table_ref {
	enum {
		REF_SECTION, /* section `index` + off */
		REF_SYMBOL,  /* symbol `index` + off, where the symbol is undefined here or may be preempted */
		REF_SLOT,    /* the GOT slot of symbol `index` */
	} kind;
	uint32_t index;
	int64_t off;
};

/* Adds the entry of a site. `section` is the section of code that contains the site, at offset `at`. The form of the
 * site decides which table the entry goes to. `more` is used only with ETCH_IMV_MORE. */
void object_tables_site(struct object_tables *t, uint32_t section, uint64_t at, const struct etch_imv *entry,
                        const struct etch_imv_more *more, const struct table_ref *object);
/* Adds the record of an object at offset `at` of `section`. `what` is the record without its references. */
void object_tables_object(struct object_tables *t, uint32_t section, uint64_t at, const struct etch_obj *what,
                          const char *name);
/* Adds a fact about `object` that concerns the code at offset `at` of `section`. */
void object_tables_fact(struct object_tables *t, uint32_t section, uint64_t at, enum etch_obj_kind kind,
                        const struct table_ref *object);
void object_tables_free(struct object_tables *t);

/*
 * Looks in an object file for tables of the kinds that are made. Sets emptied[i] for the index i of each section that
 * is such a table or has its relocations. Returns 1 if the tables equal `wanted`; 0 if they do not; -1 with a message
 * in *e if they are malformed.
 */
int object_tables_present(const struct elf_file *f, const struct object_tables *wanted, bool *emptied, struct error *e);

#endif
