/* SPDX-License-Identifier: MIT */
/*
 * The baseline: findings of an earlier run, read from its JSON, which do not count in this run. A file is
 * identified by its path; if the build directory has moved, by as many trailing path components as agree. A finding
 * is identified by ID, function and fingerprint, and matches as many places as the baseline has.
 */
#ifndef REPORT_BASELINE_H
#define REPORT_BASELINE_H

#include "input/input.h"
#include "report/report.h"

/* A file of the baseline. */
struct baseline_file {
	struct report report; /* findings sorted by fingerprint; `places`: those that no finding has matched yet */
	bool *matched;        /* per finding: it is still reported */
	bool taken;           /* it is matched with an input */
};

struct baseline {
	struct baseline_file *files;
	size_t count;
	size_t *of_input; /* per input: 1 + index of its file; 0: none */
};

/* Reads the output of --format json. 0, or -1 and a message; baseline_free() must be called in either case. */
int baseline_read(struct baseline *b, const char *path, struct error *e);
/* Matches inputs with files of the baseline. */
void baseline_match(struct baseline *b, const struct inputs *l);
/* Sets `known` in the report of an input, and returns its baseline file; null: there is none. Findings of that
 * file that are not matched afterwards are gone. */
const struct baseline_file *baseline_apply(struct baseline *b, size_t input, struct report *r);
void baseline_free(struct baseline *b);

#endif
