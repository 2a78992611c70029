/* SPDX-License-Identifier: MIT */
/* One line of the table of `etch stat`: what is counted, and by what means. */
#ifndef STAT_ROW_H
#define STAT_ROW_H

#include <stdbool.h>
#include <stddef.h>

#include "stat/samples.h"

#define ROWS_MAX 12
#define SIDES_MAX 2

enum source {
	SOURCE_NONE,      /* not counted; `missing` says why */
	SOURCE_PERF,      /* perf_event_open(2) */
	SOURCE_RUSAGE,    /* wait4(2) */
	SOURCE_CLOCK,
	SOURCE_CALLGRIND, /* simulated */
};

/* What one command's runs gave. */
struct side {
	struct samples samples;
	double share; /* the smallest part of a run's time in which it was counted; 1: always */
};

struct row {
	const char *key;   /* "task-clock" */
	const char *title; /* "task clock" */
	const char *unit;  /* "ms"; null: a number of things */
	enum source source;
	bool user_only;    /* what the kernel does for the command is not in it */
	unsigned group;    /* rows of one group are counted at the same times; 0: alone */
	char missing[100];
	struct side side[SIDES_MAX];
};

enum verdict {
	VERDICT_NONE,    /* nothing to compare */
	VERDICT_FEW,     /* too few runs to tell */
	VERDICT_WITHIN,  /* the noise explains the difference */
	VERDICT_BEYOND,  /* it does not */
};

/* A row, summed up. */
struct comparison {
	bool have[SIDES_MAX];
	struct spread spread[SIDES_MAX];
	bool has_percent;  /* the first is not 0 */
	double delta;      /* second median less first */
	double percent;    /* ... of the first */
	struct shift shift; /* with VERDICT_WITHIN, VERDICT_BEYOND */
	enum verdict verdict;
};

void row_compare(const struct row *r, struct comparison *out);

/* What one run gave, row by row. */
struct reading {
	bool have[ROWS_MAX];
	double value[ROWS_MAX];
	double share[ROWS_MAX];
};

#endif
