/* SPDX-License-Identifier: MIT */
/*
 * Prints reports as text: a block of lines per finding, and a line of totals. Names come from untrusted files, so bytes
 * on which a terminal could act are printed as \xNN.
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
	bool *remedy_printed; /* for each catalogue entry: its remedy has been printed; owned */
};

void text_init(struct text_printer *t, FILE *out, bool color, enum severity level);
void text_free(struct text_printer *t);

/* Prints those findings of a report that count (finding_counts()). */
void text_report(struct text_printer *t, const struct report *r);
/* Prints "3 errors, 2 warnings in 12 files (4 suppressed)". */
void text_totals(struct text_printer *t, const struct totals *n);
/*
 * Prints the catalogue entry of an ID. `kind` is the severity of the entry or, if the entry is not a finding, a word
 * for its kind.
 */
void text_explain(FILE *out, const struct catalogue_entry *e, const char *kind);

/* Returns "object", "program", "program (PIE)" or "shared object". */
const char *file_kind(const struct elf_file *f);

/* Prints text, with \xNN instead of each byte that plain_shown() does not show. */
void text_clean(FILE *out, const char *text);
/* Prints text like text_clean(). If it has more than `most` characters, it is cut and ends with three dots. */
void text_clean_cut(FILE *out, const char *text, size_t most);
/* Prints a path as text_clean() prints it; if `member` is not null, prints "path(member)". */
void text_clean_name(FILE *out, const char *path, const char *member);
/*
 * Prints a number of bytes in units of powers of 1000: "0 B", "9.8 MB". If `columns` is not 0, the text is
 * right-aligned in that many columns, and its unit has two characters.
 */
void text_bytes(FILE *out, uint64_t bytes, int columns);
/* Prints a line in one write, since other processes may write to the same stream. */
void text_line(FILE *out, const char *text);
/* Prints a line to standard error: "etch: WHAT: ...", or "etch: ..." if `what` is null. */
void text_error(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * text_remark() prints a line like text_error(), for a remark that is not an error. text_quiet_set() turns remarks off,
 * for the option --quiet of a command.
 */
void text_remark(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_quiet_set(void);
bool text_is_quiet(void);

#endif
