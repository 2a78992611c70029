/* SPDX-License-Identifier: MIT */
/* How deep a function's stack frame gets, and its unwind rows. */
#ifndef DIFF_DEPTH_H
#define DIFF_DEPTH_H

#include "diff/body.h"

struct depth_finder {
	struct step_cache *cache;
	uint64_t *base; /* ET_REL: address of each section in the code space, or 0 */
};

int depth_open(struct depth_finder *d, const struct image *im, struct error *e);
void depth_close(struct depth_finder *d);
/* Fills depth, flags, rows and row_code of a function whose body is at hand. */
void depth_find(struct depth_finder *d, struct image *im, uint32_t func, const struct body *b);

#endif
