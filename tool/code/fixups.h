/* SPDX-License-Identifier: MIT */
/*
 * Exception tables (etch/extable.h): instructions that may fault, and where they go on
 * then. Read here for all who look at code: a fixup is a way into a function that no
 * jump shows, in the state of the instruction that faulted.
 */
#ifndef CODE_FIXUPS_H
#define CODE_FIXUPS_H

#define ETCH_NO_MODULE /* the tool has no table of its own */
#include <etch/extable.h>

#include "code/space.h"

/* What an entry refers to. */
enum fixup_place {
	PLACE_NONE, /* nothing of this file: dropped by the linker, or (ET_REL) defined elsewhere */
	PLACE_DATA, /* a loaded section that is no code */
	PLACE_CODE,
};

struct fixup {
	uint64_t insn, to;       /* PLACE_CODE: in the code space; else linked: as the entry says */
	uint64_t at;             /* of the entry: address; ET_REL: offset in its section */
	uint32_t table;          /* in fixups.tables */
	uint32_t data;
	uint8_t insn_in, to_in;  /* enum fixup_place */
};

/* A section of that name. */
struct fixup_table {
	uint32_t section;
	size_t count;        /* entries; 0 where they are not etch's */
	size_t bad;          /* of those, malformed by themselves: libetch takes none of the table */
	bool sorted;         /* as libetch searches it */
	const char *foreign; /* why it is not etch's, a phrase; null: it is */
};

struct fixups {
	struct fixup_table *tables;
	uint32_t table_count;
	struct fixup *list; /* by (insn, place of the entry), those that are not in code first */
	size_t count;
};

/* -1: out of memory, or a table whose size is no number of entries. */
int fixups_read(const struct elf_file *f, const struct code_space *space, struct fixups *out, struct error *e);
void fixups_free(struct fixups *x);

/* Does libetch go by this entry? */
static inline bool fixup_counts(const struct fixups *x, const struct fixup *e)
{
	return e->insn_in == PLACE_CODE && e->to_in == PLACE_CODE && !x->tables[e->table].bad;
}

/* Entries of [start, end) of the code space: the first; *count of them. */
const struct fixup *fixups_of(const struct fixups *x, uint64_t start, uint64_t end, size_t *count);
/* The entry that counts of the instruction at addr, among `count`; or null. */
const struct fixup *fixup_find(const struct fixup *list, size_t count, uint64_t addr);

#endif
