/* SPDX-License-Identifier: MIT */
/*
 * cfi_map.h: a module whose .eh_frame is read in place, for the return addresses that walks meet (cfi_map.c).
 */
#ifndef ETCH_LIB_UNWIND_CFI_MAP_H
#define ETCH_LIB_UNWIND_CFI_MAP_H

#include "unwind/unwind_internal.h"

/* What walks have found out about a file: a map of return addresses (etch/orc_block.h), which they fill in. A byte of
 * 0 is not filled in yet. */
struct in_place_map {
	struct etch_map_rule palette[ETCH_MAP_CODES - ETCH_MAP_STEPS];
	uint8_t bytes[];
};

/* A file that is loaded somewhere. */
struct in_place {
	struct prepare_image im;
	uint64_t key;             /* fallback_key() of the module, for fallback_rule(); 0: keep no rules of it */
	struct in_place_map *map; /* null: the file's calls cannot be recognized */
};

/* Opens a module for lookups, without reading its .eh_frame. map: the map of the same file at another address, or
 * null. Returns false, with *m unchanged, if there is no .eh_frame with a sorted table, or no memory. Not to be
 * called in signal handlers. */
bool in_place_open(const struct prepare_image *im, struct in_place_map *map, struct in_place *in,
                   struct unwind_module *m);

/* Opens a module as in_place_open() does and adds it to the cache (table_cache.h). Returns 1, or 0 if it could not be
 * opened or added. Called under the cache's mutex. */
struct identity;
int in_place_add(const struct prepare_image *im, const struct identity *id);

/* To be called when a walk has come to a return address in m: fills in the byte of the map for the granule of that
 * address. Async-signal-safe; several threads may call it at once. */
void in_place_meet(const struct unwind_module *m, uint64_t ip)
	__attribute__((weak)); /* weak for the same reason as in_place_step() */

#endif
