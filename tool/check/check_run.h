/* SPDX-License-Identifier: MIT */
/*
 * Runs the checks on a list of inputs, in several processes, so that a crash on one file costs
 * only the result of that file. Results are given out in the order of the inputs.
 */
#ifndef CHECK_CHECK_RUN_H
#define CHECK_CHECK_RUN_H

#include "check/check.h"
#include "elf/input.h"
#include "report/totals.h"

struct checked {
	struct report report;
	size_t dropped[SEVERITIES]; /* number of findings below check_run.keep, by severity */
};

struct check_run {
	const struct inputs *inputs;
	struct check_options options;
	enum severity keep;     /* lowest severity of findings that are kept */
	enum severity compiler; /* highest severity of a finding due to the compiler */
	bool each;              /* do not join findings (check_fold) */
	int jobs;               /* processes; threads for a single input */
	/* Receives a result, whose report it may change; returns false to stop the run. */
	bool (*done)(void *ctx, size_t input, struct checked *c);
	void *ctx;
};

/* False: done() returned false, or the workers cannot be waited for. */
bool check_run(const struct check_run *run);

#endif
