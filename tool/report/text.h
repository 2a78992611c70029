/* SPDX-License-Identifier: MIT */
/*
 * Reports for people: a block a finding, a line at the end. Names in it come from files that
 * anybody may have made: bytes that a terminal would act on are written as \xNN.
 */
#ifndef REPORT_TEXT_H
#define REPORT_TEXT_H

#include <stdio.h>

#include "report/report.h"
#include "report/totals.h"

struct text_printer {
	FILE *out;
	bool color;
	enum severity level; /* from which on findings are shown */
	bool *told;          /* catalogue_count: the remedy has been said; owned */
};

/* False: out of memory. */
bool text_init(struct text_printer *t, FILE *out, bool color, enum severity level);
void text_free(struct text_printer *t);

/* Findings that count, no matter whether there are any. */
void text_report(struct text_printer *t, const struct report *r);
/* "3 errors, 2 warnings in 12 files (4 suppressed)" */
void text_totals(struct text_printer *t, const struct totals *n);
/* All that the catalogue has of an ID. */
void text_explain(FILE *out, const struct catalogue_entry *e);

/* Length of the character at p, 0 if it is none or would change what a reader sees. */
size_t text_shown(const unsigned char *p);
void text_clean(FILE *out, const char *text);
/* The same, as "path(member)". */
void text_clean_name(FILE *out, const char *path, const char *member);
/* A line on standard error: "etch: WHAT: ...", or with `what` null "etch: ...". */
void text_error(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
