/* SPDX-License-Identifier: MIT */
/*
 * own_tables.h: makes tables for the modules without one that walks come to (own_tables.c).
 */
#ifndef ETCH_LIB_INTERFACES_OWN_TABLES_H
#define ETCH_LIB_INTERFACES_OWN_TABLES_H

#include "unwind/cursor.h"

/*
 * To be called at the end of a walk, from the function whose caller the walk began with. If the walk met a module
 * without a table, makes those of the caller's stack ready for walks (unwind/cfi_map.h), unless a signal handler is
 * on that stack.
 */
void own_tables_make(uint64_t untabled);

/* Makes walks keep the rules that they read from .eh_frame from now on. The constructor calls this function. */
void own_tables_keep(void);

static inline void own_tables_after(const struct cursor *c)
{
	if (__builtin_expect(c->untabled != 0, 0))
		own_tables_make(c->untabled);
}

#endif
