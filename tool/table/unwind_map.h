/* SPDX-License-Identifier: MIT */
/* The map of return addresses in a block table (etch/orc.h): a byte per granule that selects the rule. */
#ifndef TABLE_UNWIND_MAP_H
#define TABLE_UNWIND_MAP_H

#include "table/unwind_numbered.h"

/* The arrays of the map, as in struct etch_unwind. */
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
};

/* Makes the map; `calls` as for unwind_block_encode(). */
void map_make(const struct numbered *n, const uint64_t *calls, size_t call_count, unsigned shift, struct map *m);
void map_free(struct map *m);

#endif
