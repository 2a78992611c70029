/* SPDX-License-Identifier: MIT */
/* What `etch check` prints: one way in for its three formats. */
#ifndef CHECK_SAY_H
#define CHECK_SAY_H

#include <stdio.h>

#include "report/baseline.h"
#include "report/sarif.h"
#include "report/suppress.h"
#include "report/text.h"

enum check_format { CHECK_TEXT, CHECK_JSON, CHECK_SARIF };

struct check_say {
	enum check_format format;
	enum severity level;   /* from which on findings are told */
	bool quiet;            /* no line at the end */
	bool to_file;          /* all of it goes to a file, at the end */
	FILE *out;             /* standard output, or the memory below */
	char *bytes;           /* with to_file: what is to be written; owned */
	size_t size;
	struct text_printer text;
	struct sarif sarif;
	struct json_object *files, *gone;
};

/* `root` and `docs`: struct sarif. False: out of memory. */
bool check_say_begin(struct check_say *s, const char *root, const char *docs, bool baseline, bool suppressions);
/* A file, when it is its turn; `old` is what the baseline has of it, or null. Counts what is gone.
 * False: out of memory. */
bool check_say_file(struct check_say *s, const struct report *r, const struct baseline_file *old, struct totals *n);
/* The end, with suppressions that did nothing. */
void check_say_end(struct check_say *s, const struct suppressions *rules, const struct totals *n, int exit_code);
void check_say_free(struct check_say *s);

#endif
