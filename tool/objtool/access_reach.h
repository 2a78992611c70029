/* SPDX-License-Identifier: MIT */
/*
 * For --uaccess: of which functions paths can matter. A path changes nothing and is warned of nowhere until it meets an
 * instruction with an effect on access to user memory, which few do; and only functions that may be called while access
 * is enabled begin with it. Paths are followed from functions that lead to either, by any way.
 */
#ifndef OBJTOOL_ACCESS_REACH_H
#define OBJTOOL_ACCESS_REACH_H

#include "objtool/code_map.h"

struct reach_edge {
	uint32_t from; /* unit */
	uint64_t to;   /* address */
};

struct access_reach {
	const struct code_map *map;
	/* The code from the start of a function or section up to the next is a unit. */
	uint64_t *starts; /* sorted */
	uint64_t *tails;  /* of each, where only padding is left, or its end */
	bool *matters, *safe;
	size_t count;
	struct reach_edge *edges;
	size_t edge_count, edge_capacity;
};

/* After code_map_read(), with map.stops as branch_sites_find() has left them. access_reach_free() when done. */
void access_reach_make(const struct code_map *map, struct access_reach *out);
void access_reach_free(struct access_reach *r);
/* Can paths from an address of the code space matter? */
bool access_matters(const struct access_reach *r, uint64_t at);

#endif
