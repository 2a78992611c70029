/* SPDX-License-Identifier: MIT */
/*
 * Two sizes of work: of each command two runs are made, whose words {} are the sizes, and values are of one unit of
 * work: what the larger run has more, divided by the difference of the sizes. Set-up and warm-up are in neither.
 */
#ifndef STAT_WORK_SIZE_H
#define STAT_WORK_SIZE_H

#include "stat/row.h"
#include "support/error.h"

struct work_sizes {
	const char *text[2]; /* as they were given; null: no sizes */
	double units;        /* the second less the first, above 0 */
	char *copy;          /* holds the texts */
};

/* Parses "1000,11000". 0, or -1 and a message. */
int work_sizes_parse(struct work_sizes *w, const char *text, struct error *e);
/* Does a word of the command hold a size? */
bool work_sizes_in(char **argv);
/* The command of a size, malloc'd as one block. */
char **work_command(char **argv, const char *size);
/* Makes of the readings of both sizes one of a unit of work. */
void work_unit(const struct work_sizes *w, const struct reading got[2], struct reading *out);

#endif
