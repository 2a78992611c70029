/* SPDX-License-Identifier: MIT */
/*
 * Reads the jump tables of one file and keeps the results, so that each table is read once, however many jumps use it.
 */
#ifndef DIFF_JUMP_TABLES_H
#define DIFF_JUMP_TABLES_H

#include "diff/places.h"

struct body;

/*
 * Returns the number of entries of the jump table at a place, or 0 if there is no table there. At most `limit` bytes
 * belong to the table. Sets *width to the size of an entry.
 */
size_t jump_table_at(const struct image *im, struct place at, uint64_t limit, unsigned *width);
/*
 * Returns a hash of a jump table for one function: of the number of entries, and of those that lead into the function,
 * as indices of tokens. `b` must be the body of the function `func`, since results are kept by function.
 */
uint64_t jump_table_code(const struct image *im, struct place at, unsigned width, size_t n, uint32_t func,
                         const struct body *b);
struct jump_tables *jump_tables_new(void);
void jump_tables_free(struct jump_tables *t);

#endif
