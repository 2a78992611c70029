/* SPDX-License-Identifier: MIT */
/*
 * The map of return addresses of a block table.
 */
#ifndef TABLE_UNWIND_MAP_H
#define TABLE_UNWIND_MAP_H

#include "table/unwind_numbered.h"

struct map {
	unsigned shift;
	uint8_t *bytes;
	uint64_t granules;
	uint32_t *page;
	uint32_t pages;
	uint8_t *unit;
	uint32_t units;
	struct etch_map_rule *palette;
	uint32_t palette_count;
	uint32_t rbp; /* first rule of the palette that counts from rbp */
};

/* `calls` as for unwind_block_encode(). -1: out of memory. */
int map_make(const struct numbered *n, const uint64_t *calls, size_t call_count, unsigned shift, struct map *m,
             struct error *e);
void map_free(struct map *m);

#endif
