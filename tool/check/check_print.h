/* SPDX-License-Identifier: MIT */
/* Prints the output of `etch check` in any of its three formats. */
#ifndef CHECK_CHECK_PRINT_H
#define CHECK_CHECK_PRINT_H

#include <stdio.h>

#include "report/sarif.h"
#include "report/text.h"
#include "report/verdict.h"

enum check_format { CHECK_TEXT, CHECK_JSON, CHECK_SARIF };

struct check_printer {
	enum check_format format;
	enum severity level; /* findings below this severity are not printed */
	bool quiet;          /* does not print the summary line */
	bool to_file;        /* the caller writes the output to a file at the end */
	FILE *out;           /* standard output, or a stream into `bytes` */
	char *bytes;         /* with to_file: the output; owned */
	size_t size;
	struct text_printer text;
	struct sarif sarif;
	struct json_object *files, *gone;
};

/* Begins the output. `root` and `docs` have the same meaning as in struct sarif. */
void check_print_begin(struct check_printer *s, const char *root, const char *docs, bool baseline, bool suppressions);
/*
 * Prints the report of the next file. Adds to *n the number of findings of the baseline that no longer occur in the
 * file.
 */
void check_print_file(struct check_printer *s, const struct report *r, struct totals *n);
/* Prints the summary, and the suppressions that matched no finding. */
void check_print_end(struct check_printer *s, const struct suppressions *rules, const struct totals *n, int exit_code);
void check_print_free(struct check_printer *s);

/*
 * The state of `etch check --create-baseline`: this run writes a baseline, and none of its findings changes the exit
 * status.
 */
struct baseline_record {
	const char *path; /* Path of the baseline that this run writes; null: it writes none. */
	struct check_printer document;
};

void record_begin(struct baseline_record *b, const char *path);
/* Adds a report to the baseline document and marks all its findings as known. */
void record_add(struct baseline_record *b, struct report *r);
/*
 * Writes the document and, unless `quiet`, prints a message about it. Returns false after an error, which it has
 * printed.
 */
bool record_end(struct baseline_record *b, const struct suppressions *rules, const struct totals *n, bool quiet);
void record_free(struct baseline_record *b);

#endif
