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

/* What follows is shared by match.c and match_neighbours.c, and private to them. */

/* A function with the property by which it is matched. */
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
	uint32_t *work; /* worklist: functions of the old file for whose pairs the calls are still to be followed */
	size_t work_count, work_capacity;
};

static inline void match_pair(struct matcher *m, uint32_t a, uint32_t b, enum matched how)
{
	m->im[0]->funcs[a].pair = b;
	m->im[1]->funcs[b].pair = a;
	m->im[0]->funcs[a].how = m->im[1]->funcs[b].how = (uint8_t)how;
}

static inline bool is_free(const struct image *im, uint32_t func) { return im->funcs[func].pair == NO_FUNC; }

/* Adds a pair to the worklist, by the index in the old file. */
void work_add(struct matcher *m, uint32_t func);

/* Follows the calls of all pairs in the worklist. `similar`: also those of pairs whose code differs, to callees of
 * similar size. */
void work_follow(struct matcher *m, bool similar);

/* Calls work_follow() for all pairs. */
void match_by_calls(struct matcher *m, bool similar);

/* Matches runs of free functions between neighbours that are pairs. */
void match_by_place(struct matcher *m);

#endif
