/* SPDX-License-Identifier: MIT */
/* Finds pairs of corresponding functions in two files. */
#ifndef DIFF_MATCH_H
#define DIFF_MATCH_H

#include "diff/image.h"

/*
 * Sets the members pair, how and canon of all functions. First matches functions by name, if the files have names; then
 * the rest by equal code, by the calls of matched functions, and by position.
 */
void match_functions(struct image *old, struct image *new);

/* The rest of this file is used only by match.c and match_neighbours.c. */

/* A function with the value that must be equal for a match. */
struct key {
	uint64_t value, code;
	uint32_t func;
};

/* The keys of one pass. */
struct keys {
	struct key *list[2]; /* keys of the old and of the new file */
	size_t count[2], capacity[2];
};

/* Context of the matching; im[0] is the old file, im[1] the new one. */
struct matcher {
	struct image *im[2];
	struct keys keys;
	/* worklist: functions of the old file that have a pair, and whose calls have not been followed yet */
	uint32_t *work;
	size_t work_count, work_capacity;
};

static inline void match_pair(struct matcher *m, uint32_t a, uint32_t b, enum matched how)
{
	m->im[0]->funcs[a].pair = b;
	m->im[1]->funcs[b].pair = a;
	m->im[0]->funcs[a].how = m->im[1]->funcs[b].how = (uint8_t)how;
}

static inline bool is_free(const struct image *im, uint32_t func) { return im->funcs[func].pair == NO_FUNC; }

/* Adds a pair to the worklist; `func` is its function of the old file. */
void work_add(struct matcher *m, uint32_t func);

/*
 * Follows the calls of each pair in the worklist, and matches the callees. With `similar`, also follows the calls of
 * pairs whose code differs, to callees of similar size.
 */
void work_follow(struct matcher *m, bool similar);

/* Does this for all pairs: adds them to the worklist and calls work_follow(). */
void match_by_calls(struct matcher *m, bool similar);

/* Matches unmatched functions that lie between neighbours which are matched with each other. */
void match_by_place(struct matcher *m);

#endif
