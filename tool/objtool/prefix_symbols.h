/* SPDX-License-Identifier: MIT */
/*
 * For --prefix: finds the bytes that the compiler has reserved before a function. The kernel may later write code
 * there, which then runs before the function.
 */
#ifndef OBJTOOL_PREFIX_SYMBOLS_H
#define OBJTOOL_PREFIX_SYMBOLS_H

#include "objtool/code_map.h"
#include "objtool/objtool.h"

struct prefixes {
	struct new_symbol *list; /* sorted by section and address */
	size_t count, capacity;
};

/*
 * Finds the functions with reserved bytes before them, and lists a symbol __pfx_NAME for each. Returns 0, or -1 and a
 * message if relocations are malformed.
 */
int prefixes_find(const struct code_map *map, const struct objtool_options *o, struct prefixes *out, struct error *e);
void prefixes_free(struct prefixes *p);

#endif
