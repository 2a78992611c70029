/* SPDX-License-Identifier: MIT */
/*
 * The inputs of `etch check`, one after the other or by several processes: one that crashes
 * on a file costs that file. Results come in the order of the inputs either way.
 */
#ifndef CHECK_RUN_H
#define CHECK_RUN_H

#include "check/check.h"
#include "elf/input.h"
#include "report/totals.h"

struct checked {
	struct report report;
	size_t dropped[SEVERITIES]; /* findings that nobody wants to see or count, by severity */
};

struct check_run {
	const struct inputs *inputs;
	struct check_options options;
	enum severity keep; /* findings from this severity on */
	int jobs;           /* processes; for a single input threads */
	/* Takes a result, whose report it may change; false: it goes no further. */
	bool (*done)(void *ctx, size_t input, struct checked *c);
	void *ctx;
};

/* False: out of memory, or done() said so. */
bool check_run(const struct check_run *run);

#endif
