/* SPDX-License-Identifier: MIT */
/* Which lines of source a maintainer has to change, so that most reads of an object become immediates. */
#ifndef INSPECT_FIELD_GUIDE_H
#define INSPECT_FIELD_GUIDE_H

#include <stdbool.h>
#include <stddef.h>

/* Reads of the same bytes, and the lines that keep them from being armed: all of those have to go. */
struct guide_reads {
	size_t reads;
	size_t *lines; /* numbers of lines */
	size_t line_count, line_capacity;
	bool armed;
};

struct field_guide {
	char **lines;
	size_t line_count, line_capacity;
	struct guide_reads *list;
	size_t count, capacity;
	size_t reads; /* of the object, all */
};

void field_guide_free(struct field_guide *g);
/* The guide looks at the first 256 fields with reads that are not armed: the time for more would grow with their
 * square. */
bool field_guide_is_full(const struct field_guide *g);
/* Adds reads; guide_line_add() then adds the lines that they need. */
void guide_reads_add(struct field_guide *g, size_t reads);
void guide_line_add(struct field_guide *g, const char *line);
/*
 * Prints the shortest lists of lines: "2 lines arm 412 of 797 reads: a.c:1, b.c:2", at most `most` lines. Nothing where
 * no line keeps a read from being armed.
 */
void field_guide_print(struct field_guide *g, const char *object, size_t most);

#endif
