/* SPDX-License-Identifier: MIT */
/* A cache of the jump tables in one file: each is read once, however many jumps use it. */
#ifndef DIFF_JUMP_TABLES_H
#define DIFF_JUMP_TABLES_H

#include "diff/places.h"

struct body;

/* Number of entries of the table at a place, of at most `limit` bytes; *width: size of an entry. 0: no table. */
size_t jump_table_at(const struct image *im, struct place at, uint64_t limit, unsigned *width);
/* A hash of the entries that lead into a function, as token indices, and of their number. `b` must be the
 * function's body: the result is cached. */
uint64_t jump_table_code(const struct image *im, struct place at, unsigned width, size_t n, uint32_t func,
                         const struct body *b);
struct jump_tables *jump_tables_new(void);
void jump_tables_free(struct jump_tables *t);

#endif
