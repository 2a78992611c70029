/* SPDX-License-Identifier: MIT */
/*
 * Lists the programs that a command's processes have executed, from the kernel's records (perf_event_open(2)), so that
 * those without a recording can be counted.
 */
#ifndef HEAP_PROCESS_WATCH_H
#define HEAP_PROCESS_WATCH_H

#include "profile/perf_ring.h"

/* A program that a process has executed. */
struct executed {
	pid_t pid;
	char name[16]; /* TASK_COMM_LEN */
	bool recorded; /* process_watch_recorded() sets it */
};

struct process_watch {
	struct perf_session perf;
	bool on; /* false: the system does not allow it */
	struct executed *list;
	size_t count, capacity;
};

/* Begins to watch a process that waits for its exec(2). */
void process_watch_begin(struct process_watch *w, pid_t pid);
/* Reads the records that are available; `last` means that no more follow. */
void process_watch_read(struct process_watch *w, bool last);
/* Notes that there is a recording of this program, or that it is known why there is none. A null name stands for every
 * program of the process. */
void process_watch_recorded(struct process_watch *w, pid_t pid, const char *name);
void process_watch_end(struct process_watch *w);

#endif
