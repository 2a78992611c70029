/* SPDX-License-Identifier: MIT */
/* The counters of the system for one process and all that it starts. */
#ifndef STAT_COUNTERS_H
#define STAT_COUNTERS_H

#include <sys/resource.h>
#include <sys/types.h>

#include "stat/row.h"

/* Those of one run: file descriptors, -1 where the row is not counted so. */
struct counters {
	int fd[ROWS_MAX];
};

/* Fills the rows that there are and finds out how each can be counted here. Their number. */
size_t counters_plan(struct row *rows);

/* For a process that is about to exec: they begin with that. */
void counters_open(struct counters *c, const struct row *rows, size_t count, pid_t pid);
/* After its end; usage and elapsed (ms) are for the rows that are not perf's. Closes them. */
void counters_read(struct counters *c, const struct row *rows, size_t count, const struct rusage *usage,
                   double elapsed, struct reading *out);
void counters_close(struct counters *c);

#endif
