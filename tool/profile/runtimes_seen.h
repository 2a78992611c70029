/* SPDX-License-Identifier: MIT */
/* Interpreters and JITs in a profile: whether their own functions are known, and what makes them known. */
#ifndef PROFILE_RUNTIMES_SEEN_H
#define PROFILE_RUNTIMES_SEEN_H

#include <stdio.h>

#include "profile/profile.h"

/* Counts the samples in Python of which no Python function is known (profile.python_blind), of a named profile. False:
 * out of memory. */
bool python_count(struct profile *p);
/* Removes the maps that Python has written because etch asked for it. */
void python_maps_remove(const struct profile *p);
/* Says what names Python's functions, or those of a JIT: " (...)", or nothing. */
void python_advice_put(const struct profile *p, FILE *out);
void jit_advice_put(const struct profile *p, FILE *out);

#endif
