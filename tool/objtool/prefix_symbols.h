/* SPDX-License-Identifier: MIT */
/* --prefix: the bytes in front of a function, which run at run time once the kernel has written code there. */
#ifndef OBJTOOL_PREFIX_SYMBOLS_H
#define OBJTOOL_PREFIX_SYMBOLS_H

#include "objtool/code_map.h"
#include "objtool/objtool.h"

struct prefixes {
	struct new_symbol *list; /* by section and address of what they are in front of */
	size_t count, capacity;
};

/* Finds the functions that have such bytes, for a symbol __pfx_NAME each. 0, or -1 and a message: malformed
 * relocations. */
int prefixes_find(const struct code_map *map, const struct objtool_options *o, struct prefixes *out, struct error *e);
void prefixes_free(struct prefixes *p);
/* Gives these bytes the row of their function's first instruction. */
void prefixes_add_rows(const struct prefixes *p, const struct code_space *space, struct row_list *rows);

#endif
