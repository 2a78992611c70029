/* SPDX-License-Identifier: MIT */
/* Noreturn functions: the interface that returns.c, noreturn_named.c and noreturn_chains.c share. */
#ifndef ANALYSIS_INTERPROC_NORETURN_H
#define ANALYSIS_INTERPROC_NORETURN_H

#include "analysis/interproc/work.h"

/* noreturn_named.c: adds a target (as flow_exit.target) to work.returns.noreturn; noreturn_sort() has to follow. */
void noreturn_add(struct work *w, uint64_t target);
/* Sorts the list, and renews the hash bits that noreturn_may_hold() tests first. */
void noreturn_sort(struct work *w);

/* returns.c: does execution resume after a call of this function, though it contains no return? (The convention of its
 * language says so.) */
bool call_resumes(const struct code_range *p);

/* noreturn_chains.c: follows the chains from the callers of the functions in `fresh` (sorted). */
void chains_follow(struct work *w, const uint64_t *fresh, size_t count);

/* noreturn_named.c: finds noreturn functions by name, from DWARF and a fixed list. Needs w->ranges. */
void noreturn_names(struct work *w);
/* returns.c: finds noreturn functions by the results of the last round; marks the callers concerned. */
void noreturn_find(struct work *w);

#endif
