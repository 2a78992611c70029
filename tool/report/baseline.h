/* SPDX-License-Identifier: MIT */
/*
 * Findings of an earlier run, in its JSON: what was there then does not count now. A file is
 * known again by its path; where the build directory has moved, by as many of its last parts
 * as are the same. A finding is known again by ID, function and print, as many times as it
 * was there.
 */
#ifndef REPORT_BASELINE_H
#define REPORT_BASELINE_H

#include "elf/input.h"
#include "report/report.h"

struct baseline_file {
	struct report report; /* its findings are in order of prints */
	bool *matched;        /* of each: it is still there */
	bool taken;           /* it is one of the inputs */
};

struct baseline {
	struct baseline_file *files;
	size_t count;
	size_t *of_input; /* 1 + which of the files an input is; 0: none */
};

/* Reads what --format json has written. 0, or -1 and a message; baseline_free() also then. */
int baseline_read(struct baseline *b, const char *path, struct error *e);
/* Finds each input's file. False: out of memory. */
bool baseline_match(struct baseline *b, const struct inputs *l);
/* Marks what is known in the report of an input, and returns the file; null: the baseline has
 * none. What is not matched then is gone. */
const struct baseline_file *baseline_apply(struct baseline *b, size_t input, struct report *r);
void baseline_free(struct baseline *b);

#endif
