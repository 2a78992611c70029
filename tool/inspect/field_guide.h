/* SPDX-License-Identifier: MIT */
/* Finds the lines of source that a maintainer has to change so that most reads of an object can become immediates. */
#ifndef INSPECT_FIELD_GUIDE_H
#define INSPECT_FIELD_GUIDE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Reads of the same bytes, with the lines that keep these bytes from being armed. The bytes are armed only if all of
 * these lines are removed.
 */
struct guide_reads {
	size_t reads;
	size_t *lines; /* indices into field_guide.lines */
	size_t line_count, line_capacity;
	bool armed;
};

struct field_guide {
	char **lines;
	size_t line_count, line_capacity;
	struct guide_reads *list;
	size_t count, capacity;
	size_t reads; /* number of all reads of the object, including those that are not in `list` */
};

void field_guide_free(struct field_guide *g);
/*
 * True if the guide takes no more groups. Its time grows with the square of their number, so it looks only at the first
 * 256 fields that have reads but are not armed.
 */
bool field_guide_is_full(const struct field_guide *g);
/*
 * Adds a group of `reads` reads. Calls of guide_line_add() then add the lines that keep these reads from being armed.
 */
void guide_reads_add(struct field_guide *g, size_t reads);
void guide_line_add(struct field_guide *g, const char *line);
/*
 * Prints the shortest list of at most `most` lines, as "2 lines arm 412 of 797 reads: a.c:1, b.c:2". It prints nothing
 * if no line keeps reads from being armed.
 */
void field_guide_print(struct field_guide *g, const char *object, size_t most);

#endif
