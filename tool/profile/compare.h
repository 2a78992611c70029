/* SPDX-License-Identifier: MIT */
/*
 * Two profiles compared by the shares of their functions, each of one run or several; and which changes are more than
 * the noise. With five runs of each a rank test of the runs decides, as in `etch stat`. With fewer it is the chance of
 * sampling, as far as the numbers are of samples, and the spread of the runs.
 */
#ifndef PROFILE_COMPARE_H
#define PROFILE_COMPARE_H

#include <stdio.h>

#include "profile/profile.h"

/*
 * Compares the samples of runs 1 to `olds` with those of the next `news` ones, in a named profile of folded stacks:
 * p->diff is set, and the weights of the samples become those of the picture: the mean of both shares. `sampled`: the
 * numbers are of samples. False: out of memory.
 */
bool profile_compare(struct profile *p, size_t olds, size_t news, bool sampled);
/* The functions that have changed most, at most `most`, and what was compared: for people. False: out of memory. */
bool compare_top(const struct profile *p, size_t most, bool color, FILE *out);

#endif
