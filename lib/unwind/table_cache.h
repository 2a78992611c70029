/* SPDX-License-Identifier: MIT */
/*
 * table_cache.h: the tables of modules that have none of their own (table_cache.c).
 */
#ifndef ETCH_LIB_UNWIND_TABLE_CACHE_H
#define ETCH_LIB_UNWIND_TABLE_CACHE_H

#include "unwind/cfi_map.h"

/* An entry of the cache. */
struct cached_table {
	struct cached_table *next;
	uint64_t start, end;
	struct identity identity;
	const struct etch_unwind *table; /* null: the module is read in place */
	uint64_t size;
	struct in_place in_place;
	_Alignas(MODULE_LINE) struct unwind_module module;
};

/* The cached table of the module that is mapped at im's place; null if there is none, or it was made for another
 * module, which was mapped there before. Async-signal-safe. */
const struct cached_table *cache_find(const struct prepare_image *im);

/* The following functions are not thread-safe. */

/* Computes a module's identity. Returns 1, or 0 if it has none. */
int cache_identity(const struct prepare_image *im, struct identity *id);
/* The cached table of the file with this identity, whatever address it was loaded at; or null. */
const struct cached_table *cache_find_file(const struct identity *id);
/* Adds a table, which is kept forever. Returns 1, or 0 without memory. */
int cache_add(const struct prepare_image *im, const struct identity *id, const struct etch_unwind *u, uint64_t size);
/* The two halves of cache_add(): the first makes an entry that has only the module's identity, or returns null
 * without memory; the second adds it. */
struct cached_table *cache_new(const struct prepare_image *im, const struct identity *id);
void cache_publish(struct cached_table *e);

#endif
