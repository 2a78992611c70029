/* SPDX-License-Identifier: MIT */
/*
 * Exception tables (etch/extable.h): instructions that may fault, and the address of the fixup at which they continue.
 * For an analysis of code, each entry is an edge without a jump: from before the faulting instruction to the fixup, in
 * the same state.
 *
 * The same list can contain, as such edges, the static branches and markers (etch/branch_format.h). There, libetch may
 * write a jump over a nop or a nop over a jump at run time, so control may go both ways.
 */
#ifndef ANALYSIS_FACTS_FIXUPS_H
#define ANALYSIS_FACTS_FIXUPS_H

#define ETCH_NO_MODULE /* the tool itself has no exception table */
#include <etch/extable.h>

#include "analysis/facts/space.h"

/* The kinds of places to which a field of an entry can refer. */
enum fixup_place {
	PLACE_NONE, /* nothing in this file: the linker has dropped the place, or (ET_REL) another file defines it */
	PLACE_DATA, /* a loaded section without code */
	PLACE_CODE,
};

struct fixup {
	uint64_t insn, to; /* PLACE_CODE: addresses of the code space; else the unchecked address */
	uint64_t at;       /* address of the entry; ET_REL: offset in its section */
	uint32_t table;    /* index in fixups.tables */
	/* the member `data` of struct etch_ex */
	uint32_t data;
	uint8_t insn_in, to_in; /* enum fixup_place */
};

/* One section that is, by its name, an exception table. */
struct fixup_table {
	uint32_t section;
	size_t count;             /* number of entries; 0 if `other_format` */
	size_t bad;               /* number of malformed entries; libetch rejects a table that has any */
	bool sorted;              /* the entries are in the order that libetch's binary search needs */
	const char *other_format; /* the reason why the table is none of etch's, as a phrase for messages; null: it is one
	                             of etch's */
};

struct fixups {
	struct fixup_table *tables;
	uint32_t table_count;
	struct fixup *list; /* sorted by (insn, table, at); entries whose insn is not in code come first */
	size_t count;
};

/* Reads the exception tables of a file. Returns 0; or -1 and a message if relocations are unreadable, or if the size of
 * a table is no multiple of that of an entry. */
int fixups_read(const struct elf_file *f, const struct code_space *space, struct fixups *out, struct error *e);
void fixups_free(struct fixups *x);

/*
 * Adds the edges of static branches and markers to a list that fixups_read() has made. Each table that it reads becomes
 * an element of fixups.tables with other_format set. A section with the name of such a table but a wrong size is
 * ignored. Returns 0; or -1 and a message if relocations are unreadable.
 */
int patched_edges_add(const struct elf_file *f, const struct code_space *space, struct fixups *out, struct error *e);

/* Does libetch use this entry at run time? */
static inline bool fixup_counts(const struct fixups *x, const struct fixup *e)
{
	return e->insn_in == PLACE_CODE && e->to_in == PLACE_CODE && !x->tables[e->table].bad;
}

/* Returns the first of the entries whose insn is in [start, end), or null. The others follow it. *count becomes their
 * number. */
const struct fixup *fixups_of(const struct fixups *x, uint64_t start, uint64_t end, size_t *count);
/* Returns the first entry for the instruction at addr in a list from fixups_of(), or null. */
const struct fixup *fixup_find(const struct fixup *list, size_t count, uint64_t addr);

#endif
