/* SPDX-License-Identifier: MIT */
/*
 * Reads folded stacks as etch writes them (write_folded.c), and as stackcollapse-perf.pl, py-spy and async-profiler do.
 * A line has names that are separated by ';', the outermost first, and then a number.
 */
#ifndef PROFILE_FOLDED_READ_H
#define PROFILE_FOLDED_READ_H

#include "profile/profile.h"

/*
 * The roots of two files, which may be a program under two names, such as "old" and "new": if the largest root of each
 * file is not in the other file, both are shown as one, "old -> new".
 */
struct folded_roots {
	char *old, *new, *both; /* null: roots are shown as they are */
};

/* Compares the first files of both sides. Returns false and the reason, and sets *failed to the file, or to null. */
bool folded_roots_find(struct folded_roots *r, const char *old, const char *new, const char **failed, struct error *e);
void folded_roots_free(struct folded_roots *r);

/*
 * Adds a file's stacks to a profile, whose frames are then known by name only (profile.by_name). The samples get the
 * pid `run` and the number as their weight. `roots` is null, or the roots to show as one. Returns 0, or -1 and the
 * reason.
 */
int folded_read(struct profile *p, const char *path, pid_t run, const struct folded_roots *roots, struct error *e);

#endif
