/* SPDX-License-Identifier: MIT */
/* Caches the jump tables of one file: each is read once, however many jumps use it. */
#ifndef DIFF_JUMP_TABLES_H
#define DIFF_JUMP_TABLES_H

#include "diff/places.h"

struct body;

/* Returns the number of entries of the table at a place, which has at most `limit` bytes, or 0 if there is no table.
 * *width is set to the size of an entry. */
size_t jump_table_at(const struct image *im, struct place at, uint64_t limit, unsigned *width);
/* Returns a hash of the entries that lead into a function, as token indices, and of the table's number of entries.
 * `b` must be that function's body, since the result is cached by function. */
uint64_t jump_table_code(const struct image *im, struct place at, unsigned width, size_t n, uint32_t func,
                         const struct body *b);
struct jump_tables *jump_tables_new(void);
void jump_tables_free(struct jump_tables *t);

#endif
