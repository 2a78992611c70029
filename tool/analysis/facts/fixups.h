/* SPDX-License-Identifier: MIT */
/*
 * Exception tables (etch/extable.h): instructions that may fault, and the address of the fixup at which they continue.
 * For an analysis of code, each is an edge that no jump shows, with the state before the faulting instruction.
 *
 * The same list has the edges that instructions get at run time: static branches and markers (etch/branch_format.h).
 * Where libetch may put a jump, or a nop in place of a jump, both ways are edges of the flow.
 */
#ifndef ANALYSIS_FACTS_FIXUPS_H
#define ANALYSIS_FACTS_FIXUPS_H

#define ETCH_NO_MODULE /* the tool itself has no exception table */
#include <etch/extable.h>

#include "analysis/facts/space.h"

/* The kinds of places to which a field of an entry can refer. */
enum fixup_place {
	PLACE_NONE, /* nothing in this file: the linker has dropped it, or (ET_REL) it is defined elsewhere */
	PLACE_DATA, /* a loaded section without code */
	PLACE_CODE,
};

struct fixup {
	uint64_t insn, to; /* PLACE_CODE: addresses of the code space; else the unchecked address */
	uint64_t at;       /* address of the entry; ET_REL: offset in its section */
	uint32_t table;    /* index in fixups.tables */
	uint32_t data;
	uint8_t insn_in, to_in; /* enum fixup_place */
};

/* One section with the name of the exception table. */
struct fixup_table {
	uint32_t section;
	size_t count;             /* number of entries; 0 if `other_format` */
	size_t bad;               /* number of malformed entries; libetch rejects a table that has any */
	bool sorted;              /* it is sorted as libetch's binary search needs it */
	const char *other_format; /* why the table is not etch's, as a phrase for messages; null: it is etch's */
};

struct fixups {
	struct fixup_table *tables;
	uint32_t table_count;
	struct fixup *list; /* sorted by (insn, table, at); entries whose insn is not in code come first */
	size_t count;
};

/* Reads the exception tables of a file. Returns 0, or -1 and a message: unreadable relocations, or a size that is no
 * multiple of an entry. */
int fixups_read(const struct elf_file *f, const struct code_space *space, struct fixups *out, struct error *e);
void fixups_free(struct fixups *x);

/*
 * Adds the edges of static branches and markers to a list from fixups_read(). Their only effect is the edge. A section
 * that is no table of its name is left out. Returns 0, or -1 and a message: unreadable relocations.
 */
int patched_edges_add(const struct elf_file *f, const struct code_space *space, struct fixups *out, struct error *e);

/* Does libetch use this entry? */
static inline bool fixup_counts(const struct fixups *x, const struct fixup *e)
{
	return e->insn_in == PLACE_CODE && e->to_in == PLACE_CODE && !x->tables[e->table].bad;
}

/* Returns the first of the entries with insn in [start, end), or null. *count becomes their number. */
const struct fixup *fixups_of(const struct fixups *x, uint64_t start, uint64_t end, size_t *count);
/* Returns the first entry for the instruction at addr in a list from fixups_of(), or null. */
const struct fixup *fixup_find(const struct fixup *list, size_t count, uint64_t addr);

#endif
