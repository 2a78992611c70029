/* SPDX-License-Identifier: MIT */
/*
 * Runs the checks on a list of inputs, in several processes, so that a crash on one file costs
 * only the result of that file.
 */
#ifndef CHECK_CHECK_RUN_H
#define CHECK_CHECK_RUN_H

#include "check/check.h"
#include "input/input.h"
#include "report/verdict.h"

struct check_run {
	const struct inputs *inputs;
	struct check_options options;
	const struct severity_policy *policy;
	enum severity keep; /* findings below it are only counted */
	bool each;          /* do not join findings (check_fold) */
	int jobs;           /* processes; threads for a single input */
};

/* Makes a report of each input, in order; report_free() each. False: the workers cannot be waited for (errno). */
bool check_run(const struct check_run *run, struct report *reports);

#endif
