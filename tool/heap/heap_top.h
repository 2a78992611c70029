/* SPDX-License-Identifier: MIT */
/* The table of `etch heap` on the terminal. */
#ifndef HEAP_HEAP_TOP_H
#define HEAP_HEAP_TOP_H

#include <stdio.h>

#include "heap/heap_profile.h"

/* The functions and stacks with the most bytes of h->measure, of a named profile, and what is not known. At most `most`
 * functions. False: out of memory. */
bool heap_top(const struct heap_profile *h, size_t most, bool color, FILE *out);
/* What was recorded, and what was lost: some lines. */
void heap_summary(const struct heap_profile *h, FILE *out);
/* What is missing from the sums, and why; nothing if nothing is. */
void heap_missing(const struct heap_profile *h, FILE *out);

#endif
