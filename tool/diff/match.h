/* SPDX-License-Identifier: MIT */
/* Matches the functions of two files. */
#ifndef DIFF_MATCH_H
#define DIFF_MATCH_H

#include "diff/image.h"

/*
 * Sets pair, how and canon of all functions. Matches by name where there is one; then by code, by calls of matched
 * functions, and by position. 0, or -1 and a message.
 */
void match_functions(struct image *old, struct image *new);

#endif
