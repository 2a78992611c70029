/* SPDX-License-Identifier: MIT */
/*
 * Runs: sequences of rows that occur often enough for an idx byte of their own (struct etch_run of etch/orc.h),
 * such as the pushes of prologues and the pops of epilogues.
 */
#ifndef TABLE_UNWIND_RUNS_H
#define TABLE_UNWIND_RUNS_H

#include "analysis/unwind/rows.h"

/* A run. */
struct unwind_run {
	uint8_t n;
	uint8_t off[ETCH_RUN_ROWS];   /* address of each row, relative to the first */
	uint32_t rule[ETCH_RUN_ROWS]; /* rule index of each row */
};

/* The chosen runs. */
struct unwind_runs {
	struct unwind_run *list; /* all runs together use at most 255 - count different rules */
	uint32_t count;
	uint8_t *of_row; /* per row: 1 + index of the run that starts there, or 0 */
};

/*
 * Chooses runs for `count` rows and a further row that ends them; rule[i] is the index of row i's rule, less than
 * `rules`. A run lies in one block and has only rows of at most 15 bytes, so that few return addresses are in a run:
 * lookups there are slower. Deterministic.
 */
void unwind_runs_find(const struct row *rows, size_t count, const uint32_t *rule, uint32_t rules,
                      struct unwind_runs *out);
void unwind_runs_free(struct unwind_runs *r);

#endif
