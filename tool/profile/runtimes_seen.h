/* SPDX-License-Identifier: MIT */
/* Tells whether the functions of interpreters and JITs in a profile are known, and what would make them known. */
#ifndef PROFILE_RUNTIMES_SEEN_H
#define PROFILE_RUNTIMES_SEEN_H

#include <stdio.h>

#include "profile/profile.h"

/* Counts the samples of a named profile that are in Python and of which no Python function is known
 * (profile.python_blind). Returns false if out of memory. */
bool python_count(struct profile *p);
/* Removes the maps that Python has written because etch asked for them. */
void python_maps_remove(const struct profile *p);
/* Print " (...)", which says what would name Python's functions or those of a JIT, or print nothing. */
void python_advice_put(const struct profile *p, FILE *out);
void jit_advice_put(const struct profile *p, FILE *out);

#endif
