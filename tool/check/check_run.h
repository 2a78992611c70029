/* SPDX-License-Identifier: MIT */
/*
 * Runs the checks on a list of inputs, in several processes, so that a crash on one file costs only the result of
 * that file.
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
	enum severity keep; /* findings below this severity are only counted */
	bool each;          /* reports each finding separately, without check_fold() */
	int jobs;           /* number of processes; for a single input, number of threads */
};

/*
 * Makes a report of each input, in the order of the inputs. The caller calls report_free() for each report. Returns
 * false, with errno set, if waiting for the worker processes fails.
 */
bool check_run(const struct check_run *run, struct report *reports);

#endif
