/* SPDX-License-Identifier: MIT */
/* Noreturn functions: the interface between returns.c, noreturn_named.c and noreturn_chains.c, and to the generator. */
#ifndef ANALYSIS_INTERPROC_NORETURN_H
#define ANALYSIS_INTERPROC_NORETURN_H

#include "analysis/interproc/work.h"

/* noreturn_named.c: adds a target (in the form of flow_exit.target) to work.returns.noreturn. noreturn_sort() must be
 * called after the last addition. */
void noreturn_add(struct work *w, uint64_t target);
/* Sorts work.returns.noreturn, and recomputes the hash bits that noreturn_may_hold() tests first. */
void noreturn_sort(struct work *w);

/* returns.c: does execution continue after a call of function p, although p contains no return? The convention of its
 * language says so. */
bool call_resumes(const struct code_range *p);

/* noreturn_chains.c: finds the callers that cannot return because the noreturn functions in `fresh` (sorted) do not,
 * their callers, and so on. */
void chains_follow(struct work *w, const uint64_t *fresh, size_t count);

/* noreturn_chains.c: before the first round, finds functions that cannot return among those that are called at the end
 * of a code range. Requires noreturn_names(). */
void noreturn_ahead(struct work *w);

/* noreturn_named.c: before the first round, finds noreturn functions by their names: those that DWARF marks, and those
 * in the lists of the runtimes and of the profile. Requires w->ranges. */
void noreturn_names(struct work *w);
/* returns.c: finds noreturn functions by the results of the last round, and marks their callers for the next round. */
void noreturn_find(struct work *w);

#endif
