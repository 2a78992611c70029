/* SPDX-License-Identifier: MIT */
/* Computes the largest depth of a function's stack frame, and the number and hash of its unwind rows. */
#ifndef DIFF_DEPTH_H
#define DIFF_DEPTH_H

#include "diff/body.h"

/* What depth_find() needs for all functions of one file. */
struct depth_finder {
	struct step_cache *cache;
	uint64_t *base; /* ET_REL: address of each section in the code space; linked files: zeros */
};

void depth_open(struct depth_finder *d, const struct image *im);
void depth_close(struct depth_finder *d);
/* Sets the members depth, flags, rows and row_code of a function, from its body b. */
void depth_find(struct depth_finder *d, struct image *im, uint32_t func, const struct body *b);

#endif
