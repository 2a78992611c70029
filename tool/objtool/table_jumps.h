/* SPDX-License-Identifier: MIT */
/* The jump tables of an object's code, as validation sees them: by relocations alone. */
#ifndef OBJTOOL_TABLE_JUMPS_H
#define OBJTOOL_TABLE_JUMPS_H

#include "objtool/code_map.h"

/* An indirect jump and the table that it reads. */
struct table_jump {
	uint64_t at;
	uint32_t section;
	uint64_t off;   /* offset of the table in the section */
	bool distances; /* entries are distances of 4 bytes from the table; false: addresses of 8 bytes */
};

struct table_jumps {
	const struct code_map *map;
	struct data_relocs {
		struct elf_reloc *list;
		size_t count;
		bool read;
	} * data; /* for each section */
	/* For each function: the range of its jumps in the list; first: SIZE_MAX while it is not known. */
	size_t *first, *count;
	struct table_jump *list;           /* sorted by address within each function */
	size_t list_count, capacity, work; /* work: number of entries that may still be read */
};

void table_jumps_open(const struct code_map *map, struct table_jumps *out);
void table_jumps_free(struct table_jumps *t);
/* Returns the table of an indirect jump inside a function's code, or null. */
const struct table_jump *table_jump_at(struct table_jumps *t, uint64_t at);
/* Returns the target of entry k of the jump's table: an address of code, or the end of a section of code; 0 if the
 * table has ended. */
uint64_t table_jump_target(struct table_jumps *t, const struct table_jump *j, size_t k);

#endif
