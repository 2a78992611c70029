/* SPDX-License-Identifier: MIT */
/* All runs of one or two commands, in turn. */
#ifndef STAT_MEASURE_H
#define STAT_MEASURE_H

#include "stat/row.h"
#include "stat/run.h"
#include "stat/simulate.h"

/* How runs of one command have ended. */
struct endings {
	size_t exits[256];
	size_t signals[128];
	size_t runs;      /* that the table is of */
	bool cut_short;   /* ... the only one: etch was told to stop */
	size_t failed;    /* with another status than 0, or by a signal */
};

struct measurement {
	/* What to do. */
	char **command[SIDES_MAX];
	size_t side_count;
	size_t runs, warmup; /* of each */
	bool simulate;
	bool progress;       /* a line on the terminal */
	struct run_options run;

	/* What has come of it. */
	struct row rows[ROWS_MAX];
	size_t row_count;
	struct endings end[SIDES_MAX];
	struct simulation simulation;
	int stopped;         /* by this signal before all runs were done; 0 */
};

/* 0; or -1, a message, and the command that it is about or null. What has been measured by
 * then is there. */
int measure(struct measurement *m, const char **about, struct error *e);
void measurement_free(struct measurement *m);

#endif
