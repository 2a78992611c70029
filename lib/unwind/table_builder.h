/* SPDX-License-Identifier: MIT */
/*
 * table_builder.h: the state from which prepare.c makes a module's table; it is shared with prepare_map.c, which adds
 * the return-address map.
 */
#ifndef ETCH_LIB_UNWIND_TABLE_BUILDER_H
#define ETCH_LIB_UNWIND_TABLE_BUILDER_H

#include "unwind/eh_frame.h"

/* A growing array in mapped memory, which is zeroed. */
struct array {
	void *list;
	uint64_t count, capacity; /* in elements */
};

/* A row of the table. */
struct entry {
	uint32_t at, rule; /* offset from the first byte covered; index into rules */
};

/* A rule of the table, and the numbers that stand for it in the table and in the map. */
struct ranked_rule {
	struct etch_rule rule;
	uint32_t uses, code; /* code: index in the table's palette */
	uint32_t map_uses, map_code;
};

/* The table of a module while it is made. */
struct table_builder {
	uint64_t text, size; /* link-time range that spans the executable segments */
	struct etch_cfi cfi;
	struct array fdes;  /* uint64_t: offset of the function << 32 | offset of the FDE */
	struct array rows;  /* struct entry */
	struct array rules; /* struct ranked_rule */
	bool gap;           /* no FDE covers the byte before the FDE whose rows are being collected */
	uint32_t *granules; /* per granule of the map: index of its rule + 1; 0: no call; MIXED: several
	                     * rules, or one that the map cannot hold */
	uint64_t granule_count;
	uint32_t slots[4096]; /* hash table of rules: index + 1; after a full probe sequence a duplicate rule
	                       * is added */
	bool failed;
};

#define NO_ID UINT32_MAX

/* The return-address map has one rule for each granule of 2^MAP_SHIFT bytes; MIXED means that its return addresses
 * have several. */
#define MAP_SHIFT 6u
#define MIXED     UINT32_MAX

/* Sets m->granules from the calls in the module's code and m->rows, unless memory is short or code is unreadable or
 * relocated: the table then has no map. (prepare_map.c) */
void prepare_map(struct table_builder *m, const struct prepare_image *im);

#endif
