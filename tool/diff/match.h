/* SPDX-License-Identifier: MIT */
/* Matches the functions of two files. */
#ifndef DIFF_MATCH_H
#define DIFF_MATCH_H

#include "diff/image.h"

/*
 * Sets pair, how and canon of all functions. Functions with names are matched by name first; then functions are
 * matched by code, by the calls of matched functions, and by position.
 */
void match_functions(struct image *old, struct image *new);

#endif
