/* SPDX-License-Identifier: MIT */
/*
 * Computes the median and spread of the samples of several runs, and decides whether two commands differ by more than
 * the noise of their runs.
 */
#ifndef STAT_SAMPLES_H
#define STAT_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>

/* The greatest share of rows in which two equal commands are reported as different. */
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

/* A confidence interval for how far the values of b lie above those of a. */
struct shift {
	double low, high;
};

/*
 * Computes the interval of shifts that a rank test at SHIFT_ERROR does not reject (docs/stat.md has the rule). The
 * difference exceeds the noise if 0 is outside [low, high]. Returns false if out of memory, or if there are too few
 * runs for any interval; five of each command are enough.
 */
bool samples_shift(const struct samples *a, const struct samples *b, struct shift *out);

/*
 * The ends of the interval are the k-th smallest and the k-th largest of all pairwise differences. Returns k, or 0 if
 * there are too few runs.
 */
size_t shift_rank(size_t a, size_t b);

#endif
