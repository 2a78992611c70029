/* SPDX-License-Identifier: MIT */
/* For --prefix: the bytes before a function, which run once the kernel has written code there. */
#ifndef OBJTOOL_PREFIX_SYMBOLS_H
#define OBJTOOL_PREFIX_SYMBOLS_H

#include "objtool/code_map.h"
#include "objtool/objtool.h"

struct prefixes {
	struct new_symbol *list; /* sorted by the section and address of these bytes */
	size_t count, capacity;
};

/* Finds the functions that have such bytes, to make a symbol __pfx_NAME for each. Returns 0, or -1 and a message if
 * relocations are malformed. */
int prefixes_find(const struct code_map *map, const struct objtool_options *o, struct prefixes *out, struct error *e);
void prefixes_free(struct prefixes *p);

#endif
