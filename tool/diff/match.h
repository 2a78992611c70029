/* SPDX-License-Identifier: MIT */
/* Which function of one file is which of the other. */
#ifndef DIFF_MATCH_H
#define DIFF_MATCH_H

#include "diff/image.h"

/*
 * Sets pair, how and canon of all functions. By name where there is one; then by code, by
 * what functions that have been found call, and by place. 0, or -1 and a message.
 */
int match_functions(struct image *old, struct image *new, struct error *e);

#endif
