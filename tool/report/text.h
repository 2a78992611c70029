/* SPDX-License-Identifier: MIT */
/*
 * Prints reports as text: a block per finding, and a line of totals. Names come from untrusted files: bytes that a
 * terminal could interpret are printed as \xNN.
 */
#ifndef REPORT_TEXT_H
#define REPORT_TEXT_H

#include <stdio.h>

#include "report/report.h"
#include "report/verdict.h"

struct text_printer {
	FILE *out;
	bool color;
	enum severity level;  /* lowest severity to print */
	bool *remedy_printed; /* per catalogue entry: its remedy has been printed; owned */
};

void text_init(struct text_printer *t, FILE *out, bool color, enum severity level);
void text_free(struct text_printer *t);

/* Prints the findings of a report that count. */
void text_report(struct text_printer *t, const struct report *r);
/* Prints "3 errors, 2 warnings in 12 files (4 suppressed)". */
void text_totals(struct text_printer *t, const struct totals *n);
/* Prints the entry of an ID; `kind` is its severity, or what it is instead of a finding. */
void text_explain(FILE *out, const struct catalogue_entry *e, const char *kind);

/* What plain_shown() does not show becomes \xNN. */
void text_clean(FILE *out, const char *text);
/* Like text_clean(), "path(member)" if member is not null. */
void text_clean_name(FILE *out, const char *path, const char *member);
/* A number of bytes with a unit of 1000: "0 B", "9.8 MB". With `columns`, right-aligned in them, and a unit of two. */
void text_bytes(FILE *out, uint64_t bytes, int columns);
/* Prints a line at once: other processes may write to the same stream. */
void text_line(FILE *out, const char *text);
/* Prints a line to standard error: "etch: WHAT: ...", or "etch: ..." if `what` is null. */
void text_error(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a remark that is no error, which the option --quiet of a command turns off: text_quiet_set(). */
void text_remark(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_quiet_set(void);
bool text_is_quiet(void);

#endif
