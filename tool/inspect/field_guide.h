/* SPDX-License-Identifier: MIT */
/* Finds the lines of source that a maintainer has to change so that most reads of an object become immediates. */
#ifndef INSPECT_FIELD_GUIDE_H
#define INSPECT_FIELD_GUIDE_H

#include <stdbool.h>
#include <stddef.h>

/* Reads of the same bytes, and the lines that keep them from being armed: all of these lines have to go. */
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
	size_t reads; /* number of all reads of the object */
};

void field_guide_free(struct field_guide *g);
/* True if the guide is full: it looks only at the first 256 fields with reads that are not armed, since the time
 * grows with the square of their number. */
bool field_guide_is_full(const struct field_guide *g);
/* Adds a group of reads. Calls of guide_line_add() then add the lines that these reads need. */
void guide_reads_add(struct field_guide *g, size_t reads);
void guide_line_add(struct field_guide *g, const char *line);
/*
 * Prints the shortest list of at most `most` lines, as "2 lines arm 412 of 797 reads: a.c:1, b.c:2". It prints
 * nothing if no line keeps a read from being armed.
 */
void field_guide_print(struct field_guide *g, const char *object, size_t most);

#endif
