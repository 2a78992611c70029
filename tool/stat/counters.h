/* SPDX-License-Identifier: MIT */
/* Counters of the system for one process and its descendants. */
#ifndef STAT_COUNTERS_H
#define STAT_COUNTERS_H

#include <sys/resource.h>
#include <sys/types.h>

#include "stat/row.h"

/* The counters of one run: file descriptors, -1 for rows of another source. */
struct counters {
	int fd[ROWS_MAX];
};

/* Fills in the rows and determines how each can be counted on this machine. Returns their number. */
size_t counters_plan(struct row *rows);

/* Opens the counters for a process that is about to exec; they start at its exec. */
void counters_open(struct counters *c, const struct row *rows, size_t count, pid_t pid);
/* Reads the counters after the process has ended, and closes them. usage and elapsed (ms) are for
 * the rows of other sources than perf. */
void counters_read(struct counters *c, const struct row *rows, size_t count, const struct rusage *usage, double elapsed,
                   struct reading *out);
void counters_close(struct counters *c);

#endif
