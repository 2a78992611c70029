/* SPDX-License-Identifier: MIT */
/* `etch check --create-baseline`: the first run writes the baseline, and nothing in it counts. */
#ifndef CHECK_BASELINE_RECORD_H
#define CHECK_BASELINE_RECORD_H

#include "check/check_print.h"

struct baseline_record {
	const char *path; /* of the baseline that is to be made; null: none is */
	struct check_printer document;
};

void record_begin(struct baseline_record *b, const char *path);
/* Adds a report to the document, and makes its findings known. */
void record_add(struct baseline_record *b, struct report *r);
/* Writes the document and says so, but with `quiet`. False: an error, which has been printed. */
bool record_end(struct baseline_record *b, const struct suppressions *rules, const struct totals *n, bool quiet);
void record_free(struct baseline_record *b);

#endif
