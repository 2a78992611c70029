/* SPDX-License-Identifier: MIT */
/*
 * For --uaccess: determines for which functions paths can matter. A path changes nothing, and causes no warning,
 * until it reaches an instruction with an effect on access to user memory, and few instructions have one; and only
 * functions that may be called while access is enabled begin with access enabled. So paths are followed only from
 * functions that lead to one of these in any way.
 */
#ifndef OBJTOOL_ACCESS_REACH_H
#define OBJTOOL_ACCESS_REACH_H

#include "objtool/code_map.h"

struct reach_edge {
	uint32_t from; /* a unit */
	uint64_t to;   /* an address; access_reach_make() replaces it by a unit */
};

struct access_reach {
	const struct code_map *map;
	/* A unit is the code from the start of a function or section up to the next such start. */
	uint64_t *starts; /* starts of the units, sorted */
	uint64_t *tails;  /* for each unit: where only padding is left, or its end */
	bool *matters, *safe;
	size_t count;
	struct reach_edge *edges;
	size_t edge_count, edge_capacity;
};

/* Runs after code_map_read(), while map.stops is as branch_sites_find() has left it. The caller calls
 * access_reach_free(). */
void access_reach_make(const struct code_map *map, struct access_reach *out);
void access_reach_free(struct access_reach *r);
/* True if paths from an address of the code space can matter. */
bool access_matters(const struct access_reach *r, uint64_t at);

#endif
