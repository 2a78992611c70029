/* SPDX-License-Identifier: MIT */
/*
 * Reads folded stacks, as etch writes them (write_folded.c), and others: stackcollapse-perf.pl, py-spy, async-profiler.
 * A line is names with ; between, the outermost first, then a number.
 */
#ifndef PROFILE_FOLDED_READ_H
#define PROFILE_FOLDED_READ_H

#include "profile/profile.h"

/*
 * The roots of two files, as "old" and "new" of a program under two names: where each file's largest root is not in the
 * other one, both are shown as one, "old -> new".
 */
struct folded_roots {
	char *old, *new, *both; /* null: nothing to do */
};

/* Looks at the first file of either side. False and the reason, with *failed the file. */
bool folded_roots_find(struct folded_roots *r, const char *old, const char *new, const char **failed, struct error *e);
void folded_roots_free(struct folded_roots *r);

/*
 * Adds a file's stacks to a profile, whose frames are then known by name only (profile.by_name). The samples' pid is
 * `run`; their weight is the number. `roots`: null, or what to show as one. 0, or -1 and the reason: nothing has been
 * added.
 */
int folded_read(struct profile *p, const char *path, pid_t run, const struct folded_roots *roots, struct error *e);

#endif
