/* SPDX-License-Identifier: MIT */
/* Finds the jump tables of an object's code, as objtool does: only by relocations. */
#ifndef OBJTOOL_TABLE_JUMPS_H
#define OBJTOOL_TABLE_JUMPS_H

#include "objtool/code_map.h"

/* An indirect jump and the table that it reads. */
struct table_jump {
	uint64_t at;
	uint32_t section;
	uint64_t off;   /* offset of the table in the section */
	bool distances; /* each entry has 4 bytes, its target's distance from the table; false: each entry has 8 bytes, the
	                   target's address */
};

struct table_jumps {
	const struct code_map *map;
	struct data_relocs {
		struct elf_reloc *list;
		size_t count;
		bool read;
	} * data; /* for each section */
	/*
	 * For each function: index of the first of its jumps in `list`, or SIZE_MAX if they have not been searched yet; and
	 * their number.
	 */
	size_t *first, *count;
	struct table_jump *list;           /* sorted by address within each function */
	size_t list_count, capacity, work; /* work: number of table entries that may still be read, which limits the time */
};

void table_jumps_open(const struct code_map *map, struct table_jumps *out);
void table_jumps_free(struct table_jumps *t);
/* Returns the table of the indirect jump at an address inside a function, or null if none is found. */
const struct table_jump *table_jump_at(struct table_jumps *t, uint64_t at);
/*
 * Returns the target of entry k of a jump's table: an address of code, or the end of a code section. Returns 0 if the
 * table has no entry k.
 */
uint64_t table_jump_target(struct table_jumps *t, const struct table_jump *j, size_t k);

#endif
