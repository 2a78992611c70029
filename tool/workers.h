/* SPDX-License-Identifier: MIT */
/*
 * Many inputs, one after the other or by several processes: one that crashes on an input costs
 * that input. Answers are bytes, and come in the order of the inputs either way.
 */
#ifndef WORKERS_H
#define WORKERS_H

#include <stdbool.h>
#include <stddef.h>

struct workers_run {
	size_t count;     /* inputs */
	int jobs;         /* processes at most */
	const char *what; /* for the progress line: "check" */
	/* Makes the answer about input i, malloc'd. False: out of memory. Runs in another process
	 * where there is one. */
	bool (*work)(void *ctx, size_t i, char **answer, size_t *size);
	/* Takes it, in the order of the inputs; `answer` null: the process ended, and `why` says
	 * how. False: it goes no further. */
	bool (*done)(void *ctx, size_t i, const char *answer, size_t size, const char *why);
	void *ctx;
};

/*
 * Of the processes that `jobs` allows, the first is make's word to run this program; where a
 * make is above that shares its jobs (MAKEFLAGS, GNU make manual, "POSIX Jobserver
 * Interaction"), each further one takes a token of it and gives it back.
 * False: out of memory, or done() said so.
 */
bool workers_run(const struct workers_run *run);

/* Processes to use where nobody has said: with make's jobserver as many as there are
 * processors, else 1. */
int workers_jobs(void);

#endif
