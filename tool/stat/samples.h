/* SPDX-License-Identifier: MIT */
/*
 * Numbers of several runs: their median and spread, and whether those of two commands
 * differ by more than they vary by themselves.
 */
#ifndef STAT_SAMPLES_H
#define STAT_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>

/* A row of two equal commands is called different in at most so many of all tables. */
#define SHIFT_ERROR 0.01

struct samples {
	double *list;
	size_t count, room;
};

/* False: out of memory. */
bool samples_add(struct samples *s, double value);
void samples_free(struct samples *s);

struct spread {
	double median, min, max;
	double mad; /* median of the distances from the median: half of the runs are within it */
};

/* False: there are none, or out of memory. */
bool samples_spread(const struct samples *s, struct spread *out);

/* By how much those of b are above those of a, as far as it is known. */
struct shift {
	double low, high;
};

/*
 * The interval of the shift that a rank test at SHIFT_ERROR cannot deny (docs/stat.md has
 * the rule). False: out of memory, or too few runs for any interval; five of each are
 * enough. The difference exceeds the noise where 0 is outside of [low, high].
 */
bool samples_shift(const struct samples *a, const struct samples *b, struct shift *out);

/*
 * The shift's ends are the k-th smallest and the k-th largest of all differences. 0: there
 * are too few of them.
 */
size_t shift_rank(size_t a, size_t b);

#endif
