/* SPDX-License-Identifier: MIT */
/*
 * own_tables.h: tables made on the way, for the modules that walks meet (own_tables.c).
 */
#ifndef ETCH_LIB_INTERFACES_OWN_TABLES_H
#define ETCH_LIB_INTERFACES_OWN_TABLES_H

#include "unwind/cursor.h"

/*
 * To be called at the end of a walk, from the function whose caller the walk began with: if it met a module
 * without a table, makes tables for the modules on the caller's stack, unless a signal handler is on it.
 */
void own_tables_make(uint64_t untabled, uint32_t reads);

/*
 * From now on walks keep the rules that they read from .eh_frame, and a table is made when the walks without it have
 * cost as much as it will: for most processes that is never. Before, at the end of the first walk. The constructor
 * calls it, but with ETCH_UNWIND_TABLES=first.
 */
void own_tables_wait(void);

static inline void own_tables_after(const struct cursor *c)
{
	if (__builtin_expect(c->untabled != 0, 0))
		own_tables_make(c->untabled, c->reads);
}

#endif
