/* SPDX-License-Identifier: MIT */
/*
 * Draws the jumps within a listing of code as arrows in a gutter: one vertical line per target, in lanes, with the
 * shortest line next to the code. Lines cross only where jumps do.
 */
#ifndef INSPECT_ARROWS_H
#define INSPECT_ARROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A jump between two lines of the listing, by line number. */
struct jump {
	uint32_t from, to;
};

struct arrows;

/* Lays out the arrows of a listing of `lines` lines in at most `lanes` lanes. A jump that does not fit gets no arrow;
 * the gutter of its line shows v or ^ instead. */
struct arrows *arrows_make(const struct jump *jumps, size_t count, uint32_t lines, unsigned lanes);
void arrows_free(struct arrows *a);
/* Returns the number of columns that arrows_line() fills. */
unsigned arrows_width(const struct arrows *a);
/* Writes the gutter of a line: arrows_width() columns of ASCII or, if `unicode`, of UTF-8. */
void arrows_line(const struct arrows *a, uint32_t line, bool unicode, char *out, size_t size);

#endif
