/* SPDX-License-Identifier: MIT */
/*
 * Jumps within a listing of code as arrows in a gutter: one vertical line a target, in
 * lanes, the shortest next to the code. Lines cross only where jumps do.
 */
#ifndef INSPECT_ARROWS_H
#define INSPECT_ARROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From one line of the listing to another, by number. */
struct jump {
	uint32_t from, to;
};

struct arrows;

/* At most `lanes` of them; what does not fit is left out of the gutter (its line has v or ^
 * there). Null: out of memory. */
struct arrows *arrows_make(const struct jump *jumps, size_t count, uint32_t lines, unsigned lanes);
void arrows_free(struct arrows *a);
/* Columns that arrows_line() fills. */
unsigned arrows_width(const struct arrows *a);
/* The gutter of a line, as so many columns of text: ASCII, or UTF-8 with `unicode`. */
void arrows_line(const struct arrows *a, uint32_t line, bool unicode, char *out, size_t size);

#endif
