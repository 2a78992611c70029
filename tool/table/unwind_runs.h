/* SPDX-License-Identifier: MIT */
/*
 * Sequences of rows that occur often enough for an idx byte of their own (struct
 * etch_run of etch/orc.h): pushes of prologues, pops of epilogues.
 */
#ifndef TABLE_UNWIND_RUNS_H
#define TABLE_UNWIND_RUNS_H

#include "code/rows.h"

struct unwind_run {
	uint8_t n;
	uint8_t off[ETCH_RUN_ROWS];   /* of each row, from the first */
	uint32_t rule[ETCH_RUN_ROWS]; /* its number */
};

struct unwind_runs {
	struct unwind_run *list; /* rules of all of them together: at most 255 - count different ones */
	uint32_t count;
	uint8_t *of_row;         /* of each row: 1 + number of the run that starts there, or 0 */
};

/*
 * Chooses runs for `count` rows and one more that is their end; rule[i] is the number of
 * row i's rule, below `rules`. A run lies in one block and has only rows of at most 15
 * bytes, so that return addresses seldom meet one: a lookup in it takes longer.
 * Deterministic. -1: out of memory.
 */
int unwind_runs_find(const struct row *rows, size_t count, const uint32_t *rule, uint32_t rules,
                     struct unwind_runs *out);
void unwind_runs_free(struct unwind_runs *r);

#endif
