/* SPDX-License-Identifier: MIT */
/*
 * Draws the jumps within a listing of code as arrows to the left of the code. Each target has one vertical line, in a
 * column of its own (a lane); the shortest line is next to the code. Lines cross only where the jumps do.
 */
#ifndef INSPECT_ARROWS_H
#define INSPECT_ARROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A jump from one line of the listing to another, by their numbers. */
struct jump {
	uint32_t from, to;
};

struct arrows;

/*
 * Lays out the arrows of a listing of `lines` lines in at most `lanes` lanes. A jump that does not fit gets no arrow;
 * instead, v or ^ beside its line shows its direction.
 */
struct arrows *arrows_make(const struct jump *jumps, size_t count, uint32_t lines, unsigned lanes);
void arrows_free(struct arrows *a);
/* Returns the number of columns that arrows_line() fills. */
unsigned arrows_width(const struct arrows *a);
/* Writes the arrows beside a line: arrows_width() columns of ASCII or, if `unicode`, of UTF-8. */
void arrows_line(const struct arrows *a, uint32_t line, bool unicode, char *out, size_t size);

#endif
