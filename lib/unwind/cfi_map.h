/* SPDX-License-Identifier: MIT */
/*
 * cfi_map.h: a module whose .eh_frame is read where it is, for the return addresses that walks meet (cfi_map.c).
 */
#ifndef ETCH_LIB_UNWIND_CFI_MAP_H
#define ETCH_LIB_UNWIND_CFI_MAP_H

#include "unwind/unwind_internal.h"

/* What walks have found out about a file: a map of return addresses (etch/orc_block.h), which they fill in.
 * Byte 0: not yet. */
struct in_place_map {
	struct etch_map_rule palette[ETCH_MAP_CODES - ETCH_MAP_STEPS];
	uint8_t bytes[];
};

/* A file that is loaded somewhere. */
struct in_place {
	struct prepare_image im;
	uint64_t key;             /* for the rules that are kept (fallback.c); 0: keep none */
	struct in_place_map *map; /* null: its calls cannot be told */
};

/* Opens a module for lookups, without reading its .eh_frame. map: of the same file at another address, or null. False,
 * with *m unchanged: there is none with a sorted table, or no memory. Not in signal handlers. */
bool in_place_open(const struct prepare_image *im, struct in_place_map *map, struct in_place *in,
                   struct unwind_module *m);

/* Adds a module to the cache (table_cache.h), opened so: 1, or 0. Under the cache's mutex. */
struct identity;
int in_place_add(const struct prepare_image *im, const struct identity *id);

/* To be called when a walk has met a return address in m: fills in its part of the map. Async-signal-safe, by several
 * threads at once. */
void in_place_meet(const struct unwind_module *m, uint64_t ip) __attribute__((weak)); /* as in_place_step() */

#endif
