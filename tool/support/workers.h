/* SPDX-License-Identifier: MIT */
/*
 * Processes many inputs, sequentially or in several worker processes: an input that crashes its
 * worker loses only its own answer. Answers are bytes, delivered in the order of the inputs in
 * both cases.
 */
#ifndef SUPPORT_WORKERS_H
#define SUPPORT_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct workers_run {
	size_t count;     /* number of inputs */
	int jobs;         /* maximum number of processes */
	const char *what; /* for the progress line: "check" */
	/* Makes the answer for input i, malloc'd. Runs in a worker process if there is one. */
	void (*work)(void *ctx, size_t i, char **answer, size_t *size);
	/* Consumes an answer, in the order of the inputs. `answer` null: the process ended, and
	 * `why` is the reason. Returns false to stop. */
	bool (*done)(void *ctx, size_t i, const char *answer, size_t size, const char *why);
	void *ctx;
};

/*
 * Of the processes that `jobs` allows, the first uses the job slot that make gave this program; if
 * a make above shares its jobs (MAKEFLAGS, GNU make manual, "POSIX Jobserver Interaction"), each
 * further one takes a token from it and returns it. False: done() returned false, or the workers cannot be waited for.
 */
bool workers_run(const struct workers_run *run);

/* Default number of processes: with make's jobserver the number of processors, else 1. */
int workers_jobs(void);

/*
 * Default number of threads for one file of so many bytes: one for each processor, but no more than four, for a file
 * that is worth them (32 MB); 1 below a make that shares its jobs, which has counted this program as one.
 */
int workers_threads(uint64_t size);

#endif
