/* SPDX-License-Identifier: MIT */
/* Reads the system's counters for one process and its descendants. */
#ifndef STAT_COUNTERS_H
#define STAT_COUNTERS_H

#include <sys/resource.h>
#include <sys/types.h>

#include "stat/row.h"

/* The counters of one run: file descriptors, which are -1 for rows of another source. */
struct counters {
	int fd[ROWS_MAX];
};

/* Fills in the rows and determines how each can be counted on this machine. Returns their number. */
size_t counters_plan(struct row *rows);

/* Opens the counters for a process that is about to call exec(2), which starts them. */
void counters_open(struct counters *c, const struct row *rows, size_t count, pid_t pid);
/* Reads the counters after the process has ended, and closes them. `usage` and `elapsed` (ms) serve the rows whose
 * source is not perf. */
void counters_read(struct counters *c, const struct row *rows, size_t count, const struct rusage *usage, double elapsed,
                   struct reading *out);
void counters_close(struct counters *c);

#endif
