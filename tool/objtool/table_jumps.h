/* SPDX-License-Identifier: MIT */
/* Jump tables of an object's code, as validation takes them: by relocations alone. */
#ifndef OBJTOOL_TABLE_JUMPS_H
#define OBJTOOL_TABLE_JUMPS_H

#include "objtool/code_map.h"

/* An indirect jump and the table that it reads. */
struct table_jump {
	uint64_t at;
	uint32_t section;
	uint64_t off;   /* of the table in the section */
	bool distances; /* entries are distances of 4 bytes from the table, not addresses of 8 */
};

struct table_jumps {
	const struct code_map *map;
	struct data_relocs {
		struct elf_reloc *list;
		size_t count;
		bool read;
	} * data;                          /* per section */
	size_t *first, *count;             /* per function: its jumps in the list; first: SIZE_MAX while not known */
	struct table_jump *list;           /* of each function, sorted */
	size_t list_count, capacity, work; /* work: entries that may still be read */
};

void table_jumps_open(const struct code_map *map, struct table_jumps *out);
void table_jumps_free(struct table_jumps *t);
/* The table of an indirect jump inside a function's code, or null. */
const struct table_jump *table_jump_at(struct table_jumps *t, uint64_t at);
/* Where entry k of its table leads: an address of code, or the end of a section of code; 0: the table has ended. */
uint64_t table_jump_target(struct table_jumps *t, const struct table_jump *j, size_t k);

#endif
