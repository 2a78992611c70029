/* SPDX-License-Identifier: MIT */
/*
 * Chooses the rows that a table holds where a file's code is spread over distant addresses. A table takes about a byte
 * for each 32 bytes of address range, whether code is there or not, and its offsets have 32 bits: a single function far
 * from the rest would cost megabytes, or the whole table.
 */
#ifndef TABLE_NEAR_ROWS_H
#define TABLE_NEAR_ROWS_H

#include "analysis/unwind/rows.h"

/* Code that gets no rows in the table. */
struct far_code {
	uint64_t bytes; /* described code that is left out; 0: none */
	uint64_t at;    /* address of its first byte */
};

/*
 * Finds the rows of the largest part of the code that a table can hold without spending more on gaps than on code.
 * *near is a view of `rows`, and ends with an UNDEF row as every list does; in almost every file it is all rows. The
 * choice depends on the rows alone, so that a file that has been rewritten gives the same.
 */
void rows_near(const struct row_list *rows, struct row_list *near, struct far_code *far);

#endif
