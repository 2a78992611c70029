/* SPDX-License-Identifier: MIT */
/*
 * Samples of several runs: their median and spread, and whether two commands differ by more than
 * the noise of their runs.
 */
#ifndef STAT_SAMPLES_H
#define STAT_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>

/* Two equal commands are reported as different in at most this share of rows. */
#define SHIFT_ERROR 0.01

struct samples {
	double *list;
	size_t count, capacity;
};

/* Returns false if out of memory. */
bool samples_add(struct samples *s, double value);
void samples_free(struct samples *s);

struct spread {
	double median, min, max;
	double mad; /* median absolute deviation: half of the runs are within it */
};

/* Returns false if there are no samples, or out of memory. */
bool samples_spread(const struct samples *s, struct spread *out);

/* How far the values of b lie above those of a: a confidence interval. */
struct shift {
	double low, high;
};

/*
 * The interval of shifts that a rank test at SHIFT_ERROR does not reject (docs/stat.md has the
 * rule). False: out of memory, or too few runs for any interval; five of each are enough. The
 * difference exceeds the noise if 0 is outside of [low, high].
 */
bool samples_shift(const struct samples *a, const struct samples *b, struct shift *out);

/*
 * The ends of the interval are the k-th smallest and the k-th largest of all pairwise differences.
 * Returns k; 0 if there are too few runs.
 */
size_t shift_rank(size_t a, size_t b);

#endif
