/* SPDX-License-Identifier: MIT */
/*
 * Writes lines of text to standard output. On a terminal, the lines have colours (unless NO_COLOR is set) and are cut
 * at its width; otherwise they are plain and complete.
 */
#ifndef INSPECT_TERM_WRITER_H
#define INSPECT_TERM_WRITER_H

#include <stdbool.h>
#include <stddef.h>

/* How text is highlighted. */
enum style {
	STYLE_PLAIN,
	STYLE_DIM, /* addresses, unchanged values */
	STYLE_STRONG,
	STYLE_NAME,
	STYLE_NOTE,
	STYLE_LINE, /* lines of arrows */
};

/* The state of the output. */
struct writer {
	bool colour;
	bool unicode;   /* the output is a terminal with a UTF-8 locale */
	unsigned width; /* width of the terminal in columns; 0: unlimited */
	unsigned at;    /* current column */
};

void writer_init(struct writer *p);
/* Prints text without newlines, in UTF-8 or ASCII. Prints '?' in place of control characters. */
void writer_put(struct writer *p, enum style style, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Prints blanks up to a column. */
void writer_column(struct writer *p, unsigned column);
void writer_newline(struct writer *p);

#endif
