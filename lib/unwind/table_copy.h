/* SPDX-License-Identifier: MIT */
/*
 * table_copy.h: private copies of the tables that lie inside modules which may be unloaded (table_copy.c).
 */
#ifndef ETCH_LIB_UNWIND_TABLE_COPY_H
#define ETCH_LIB_UNWIND_TABLE_COPY_H

#include "unwind/unwind_internal.h"

/* The table comes first, then the arrays of ETCH_ENCODING_ORC, which lie elsewhere in the module. */
enum { COPY_TABLE, COPY_IP, COPY_ORC, COPY_LOOKUP, COPY_PARTS };

/* A copy. Never changed, never freed. */
struct table_copy {
	const struct table_copy *next; /* the copy for a file with the same headers that has another table */
	unsigned parts;                /* 0: the file has no table */
	struct {
		uint64_t at, size; /* link-time address in the module */
		const uint8_t *bytes;
	} part[COPY_PARTS];
};

static inline const struct etch_unwind *table_copy_table(const struct table_copy *t)
{
	return t->parts ? (const struct etch_unwind *)(const void *)t->part[COPY_TABLE].bytes : NULL;
}

/*
 * The copy of the table of a module that is `kept` (loaded.h), or one without parts. Null if the module has gone, or
 * there is no memory. Async-signal-safe.
 */
const struct table_copy *table_copy_of(const struct prepare_image *im);

/* Is each file with this module's headers the same file? It is if the headers include a build-id. */
static inline bool table_copy_is_certain(const struct prepare_image *im) { return loaded_identity(im)->id_size != 0; }

#endif
