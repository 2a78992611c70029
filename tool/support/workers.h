/* SPDX-License-Identifier: MIT */
/*
 * Processes many inputs in one or several worker processes, so that an input that crashes its worker loses only its own
 * answer. Answers are bytes, and are delivered in the order of the inputs.
 */
#ifndef SUPPORT_WORKERS_H
#define SUPPORT_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct workers_run {
	size_t count;     /* number of inputs */
	int jobs;         /* maximum number of processes */
	const char *what; /* the word that the progress line shows, such as "check" */
	/* Makes the answer for input i, malloc'd. It runs in a worker process if one could be started. */
	void (*work)(void *ctx, size_t i, char **answer, size_t *size);
	/* Consumes an answer, in the order of the inputs. If `answer` is null, the worker process ended, and `why` is the
	 * reason. Returns false to stop. */
	bool (*done)(void *ctx, size_t i, const char *answer, size_t size, const char *why);
	void *ctx;
};

/*
 * Of the processes that `jobs` allows, the first uses the job slot that make gave this program. If the make that runs
 * it shares its jobs (MAKEFLAGS, GNU make manual, "POSIX Jobserver Interaction"), each further process takes a token
 * from make and returns it. Returns false if done() returned false, or if poll() failed.
 */
bool workers_run(const struct workers_run *run);

/* Returns the default number of processes: the number of processors with make's jobserver, otherwise 1. */
int workers_jobs(void);

/*
 * Returns the default number of threads for one file of `size` bytes: one for each processor, but at most four, for a
 * file of more than 32 MB, and 1 for a smaller one. Under a make that shares its jobs it is always 1, since make has
 * counted this program as one job.
 */
int workers_threads(uint64_t size);

#endif
