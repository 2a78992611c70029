/* SPDX-License-Identifier: MIT */
/* One row of the table of `etch stat`: the event that is counted, and the source that counts it. */
#ifndef STAT_ROW_H
#define STAT_ROW_H

#include <stdbool.h>
#include <stddef.h>

#include "stat/samples.h"

#define ROWS_MAX  12
#define SIDES_MAX 2

enum source {
	SOURCE_NONE,   /* not counted; `missing` is the reason */
	SOURCE_PERF,   /* perf_event_open(2) */
	SOURCE_RUSAGE, /* wait4(2) */
	SOURCE_CLOCK,
	SOURCE_CALLGRIND, /* simulated by valgrind */
};

/* The results of one command's runs. */
struct side {
	struct samples samples;
	double share; /* the smallest share of a run's time in which the event was counted; 1: all of it */
};

struct row {
	const char *key;   /* "task-clock" */
	const char *title; /* "task clock" */
	const char *unit;  /* "ms"; null: a count */
	enum source source;
	bool user_only; /* excludes the kernel's work for the command */
	unsigned group; /* rows of one group are counted at the same time; 0: alone */
	char missing[100];
	struct side side[SIDES_MAX];
};

/* The values of one run, by row. */
struct reading {
	bool have[ROWS_MAX];
	double value[ROWS_MAX];
	double share[ROWS_MAX];
};

#endif
