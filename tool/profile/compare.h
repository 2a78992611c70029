/* SPDX-License-Identifier: MIT */
/*
 * Compares two profiles, each of one run or several, by the shares of their functions, and decides which changes exceed
 * the noise. With five runs of each profile a rank test of the runs decides, as in `etch stat`. With fewer runs the
 * chance of sampling, if the numbers are those of samples, and the spread of the runs decide.
 */
#ifndef PROFILE_COMPARE_H
#define PROFILE_COMPARE_H

#include <stdio.h>

#include "profile/profile.h"

/*
 * Compares the samples of runs 1 to `olds` with those of the next `news` runs, in a named profile of folded stacks.
 * Sets p->diff, and the weights of the samples to those of the picture, which are the mean of both shares. `sampled`
 * means that the numbers are those of samples. Returns false if out of memory.
 */
bool profile_compare(struct profile *p, size_t olds, size_t news, bool sampled);
/* Prints for people the functions that have changed most, at most `most` of them, and what was compared. Returns false
 * if out of memory. */
bool compare_top(const struct profile *p, size_t most, bool color, FILE *out);

#endif
