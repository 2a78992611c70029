/* SPDX-License-Identifier: MIT */
/*
 * The baseline: findings of an earlier run, read from its JSON, which do not count in this run. A file is identified
 * by its path or, if the build directory has moved, by as many trailing path components as agree. A finding is
 * identified by its ID, function and fingerprint, and matches as many places as the baseline has.
 */
#ifndef REPORT_BASELINE_H
#define REPORT_BASELINE_H

#include "input/input.h"
#include "report/report.h"

/* A file of the baseline. */
struct baseline_file {
	/* Its findings are sorted by fingerprint; `places` counts those that no finding has matched yet. */
	struct report report;
	bool *matched; /* for each finding: this run still reports it */
	bool taken;    /* it has been matched with an input */
};

struct baseline {
	struct baseline_file *files;
	size_t count;
	size_t *of_input; /* for each input: 1 + the index of its file; 0: none */
};

/* Reads the output of --format json. Returns 0, or -1 and a message. The caller calls baseline_free() in either
 * case. */
int baseline_read(struct baseline *b, const char *path, struct error *e);
/* Matches inputs with files of the baseline. */
void baseline_match(struct baseline *b, const struct inputs *l);
/* Sets `known` in the report of an input, and returns its baseline file, or null if there is none. The findings of
 * that file that are still unmatched afterwards are gone. */
const struct baseline_file *baseline_apply(struct baseline *b, size_t input, struct report *r);
void baseline_free(struct baseline *b);

#endif
