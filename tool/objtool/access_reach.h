/* SPDX-License-Identifier: MIT */
/*
 * For --uaccess: finds the functions from which paths have to be followed. Only an instruction with an effect on access
 * to user memory can cause a warning, and there are few of them; until a path reaches one, it changes nothing. Also,
 * access is enabled at the start of a function only if that function may be called with access enabled. So it is enough
 * to follow paths from those functions that lead, directly or through others, to such an instruction or function.
 */
#ifndef OBJTOOL_ACCESS_REACH_H
#define OBJTOOL_ACCESS_REACH_H

#include "objtool/code_map.h"

struct reach_edge {
	uint32_t from; /* index of a unit */
	uint64_t to;   /* an address; access_reach_make() replaces it by the index of its unit */
};

struct access_reach {
	const struct code_map *map;
	/* A unit is the code from the start of a function or section up to the next such start. */
	uint64_t *starts; /* start of each unit, ascending */
	uint64_t *tails;  /* for each unit: the address from which only padding follows, or the end of the unit */
	bool *matters, *safe;
	size_t count;
	struct reach_edge *edges;
	size_t edge_count, edge_capacity;
};

/*
 * Requires that code_map_read() has run, and that map.stops is as branch_sites_find() has filled it. The caller calls
 * access_reach_free().
 */
void access_reach_make(const struct code_map *map, struct access_reach *out);
void access_reach_free(struct access_reach *r);
/* True if paths from an address of the code space have to be followed. */
bool access_matters(const struct access_reach *r, uint64_t at);

#endif
