/* SPDX-License-Identifier: MIT */
/* Prints the table of `etch heap` on the terminal. */
#ifndef HEAP_HEAP_TOP_H
#define HEAP_HEAP_TOP_H

#include <stdio.h>

#include "heap/heap_profile.h"

/* Prints the functions, at most `most` of them, and the stacks with the most bytes of h->measure, and the processes.
 * The profile must have been named. Returns false if out of memory. */
bool heap_top(const struct heap_profile *h, size_t most, bool color, FILE *out);
/* Prints some lines about what was recorded, and which stacks were lost. */
void heap_summary(const struct heap_profile *h, FILE *out);
/* Prints what is missing from the sums, and why. It prints nothing if nothing is missing. */
void heap_missing(const struct heap_profile *h, FILE *out);

#endif
