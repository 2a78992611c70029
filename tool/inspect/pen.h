/* SPDX-License-Identifier: MIT */
/*
 * Lines for people. On a terminal they have colours (unless NO_COLOR says otherwise) and
 * end where it does; anywhere else they are plain and whole.
 */
#ifndef INSPECT_PEN_H
#define INSPECT_PEN_H

#include <stdbool.h>
#include <stddef.h>

enum style {
	STYLE_PLAIN,
	STYLE_DIM,    /* addresses, what has not changed */
	STYLE_STRONG,
	STYLE_NAME,
	STYLE_NOTE,
	STYLE_LINE,   /* arrows */
};

struct pen {
	bool colour;
	bool unicode;   /* a terminal whose locale is UTF-8 */
	unsigned width; /* columns; 0: no end */
	unsigned at;    /* column */
};

void pen_init(struct pen *p);
/* A text on one line, in UTF-8 or ASCII; control characters in it become '?'. */
void pen_put(struct pen *p, enum style style, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Blanks up to a column. */
void pen_to(struct pen *p, unsigned column);
void pen_newline(struct pen *p);

#endif
