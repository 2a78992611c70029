/* SPDX-License-Identifier: MIT */
/*
 * Two sizes of work: each command is run once for each size, with the size in place of {} in its words. A value is then
 * that of one unit of work: the difference of the two runs' values, divided by the difference of the sizes. The costs
 * of set-up and warm-up cancel out.
 */
#ifndef STAT_WORK_SIZE_H
#define STAT_WORK_SIZE_H

#include "stat/row.h"
#include "support/error.h"

struct work_sizes {
	const char *text[2]; /* the texts that the user gave; null: no sizes */
	double units;        /* the second size minus the first, above 0 */
	char *copy;          /* holds the texts */
};

/* Parses a text such as "1000,11000". Returns 0, or -1 and a message. */
int work_sizes_parse(struct work_sizes *w, const char *text, struct error *e);
/* Does a word of the command contain {}? */
bool work_sizes_in(char **argv);
/* Returns the command for a size, malloc'd as one block. */
char **work_command(char **argv, const char *size);
/* Computes the reading for a unit of work from the readings of both sizes. */
void work_unit(const struct work_sizes *w, const struct reading got[2], struct reading *out);

#endif
