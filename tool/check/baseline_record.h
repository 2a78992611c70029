/* SPDX-License-Identifier: MIT */
/* Implements `etch check --create-baseline`: the run writes a baseline, and none of the run's own findings counts. */
#ifndef CHECK_BASELINE_RECORD_H
#define CHECK_BASELINE_RECORD_H

#include "check/check_print.h"

struct baseline_record {
	const char *path; /* Path of the baseline that this run writes; null: it writes none. */
	struct check_printer document;
};

void record_begin(struct baseline_record *b, const char *path);
/* Adds a report to the baseline document and marks all its findings as known. */
void record_add(struct baseline_record *b, struct report *r);
/* Writes the document and, unless `quiet`, prints a message that says so. Returns false after an error, which it has
 * printed. */
bool record_end(struct baseline_record *b, const struct suppressions *rules, const struct totals *n, bool quiet);
void record_free(struct baseline_record *b);

#endif
