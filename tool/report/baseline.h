/* SPDX-License-Identifier: MIT */
/*
 * The baseline: findings of an earlier run, read from its JSON, which do not count in this run. A file of this run is
 * the same as a file of the baseline if the paths are equal or, should the build directory have moved, if as many
 * trailing components of the path as possible agree. Two findings are the same if their ID, function and fingerprint
 * are equal; one finding of the baseline excuses as many places as it had.
 */
#ifndef REPORT_BASELINE_H
#define REPORT_BASELINE_H

#include "input/input.h"
#include "report/report.h"

/* A file in the baseline. */
struct baseline_file {
	/*
	 * Its findings, sorted by fingerprint. `places` is the number of places that no finding of this run has matched
	 * yet.
	 */
	struct report report;
	bool *matched; /* for each finding: this run still reports it */
	bool taken;    /* an input of this run has been matched with this file */
};

struct baseline {
	struct baseline_file *files;
	size_t count;
	/* for each input of this run: 1 + the index of its file; 0: the baseline does not have the file */
	size_t *of_input;
};

/* Reads the output of --format json. Returns 0, or -1 and a message. The caller calls baseline_free() in either
 * case. */
int baseline_read(struct baseline *b, const char *path, struct error *e);
/* Finds the file of the baseline for each input. */
void baseline_match(struct baseline *b, const struct inputs *l);
/*
 * Sets `known` in the findings of an input's report that the baseline has. Returns the input's file in the baseline, or
 * null if there is none. The findings of that file that are still unmatched afterwards no longer occur.
 */
const struct baseline_file *baseline_apply(struct baseline *b, size_t input, struct report *r);
void baseline_free(struct baseline *b);

#endif
