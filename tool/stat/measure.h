/* SPDX-License-Identifier: MIT */
/* Makes all runs of one or two commands, alternately. */
#ifndef STAT_MEASURE_H
#define STAT_MEASURE_H

#include "stat/row.h"
#include "support/run.h"
#include "stat/simulate.h"
#include "stat/work_size.h"

/* How the runs of one command ended. */
struct endings {
	size_t exits[256];
	size_t signals[128];
	size_t runs;    /* number of runs in the table */
	bool cut_short; /* the only run was cut short: etch was told to stop */
	size_t failed;  /* ended with a status other than 0, or by a signal */
};

struct measurement {
	/* The parameters. */
	char **command[SIDES_MAX];
	size_t side_count;
	size_t runs, warmup; /* per command */
	bool simulate;
	const char *only; /* with simulate: the only program that is simulated and counted; null: all */
	long files;       /* with simulate: the limit of open files that programs will set for themselves; 0: none is set */
	struct work_sizes work; /* if it has sizes, values are those of a unit of work */
	bool progress;          /* show a progress line on the terminal */
	struct run_options run;

	/* The results. */
	struct row rows[ROWS_MAX];
	size_t row_count;
	struct endings end[SIDES_MAX];
	struct simulation simulation;
	int stopped; /* the signal that stopped etch before all runs were done; or 0 */
};

/* Returns 0, or -1 and a message, with *about set to the command that it concerns or to null. The results so far remain
 * available. */
int measure(struct measurement *m, const char **about, struct error *e);
void measurement_free(struct measurement *m);

#endif
