/* SPDX-License-Identifier: MIT */
/*
 * Computes the edit script between two bodies: the tokens to remove from the old one, and those to insert from the new
 * one.
 */
#ifndef DIFF_SCRIPT_H
#define DIFF_SCRIPT_H

#include "diff/body.h"

/* An edit script. Its memory is reused for the next one. */
struct script {
	bool *removed, *inserted; /* removed: for each token of the old body, whether it is removed; inserted: for each
	                             token of the new body, whether it is inserted */
	size_t removed_count, inserted_count;
	/* The members below are private to script.c. */
	int64_t *to; /* for each token of one body: the index of the token of the other body that it equals, or -1 */
	int64_t *diagonals;
	size_t capacity[2], to_capacity, diagonal_capacity;
};

/*
 * Computes a shortest edit script between two bodies, or a longer one if that would take too much time. body_name()
 * must have been called for both. Two jumps are equal if their targets are. *s may be a script from an earlier call,
 * whose memory is reused.
 */
void script_make(struct script *s, const struct body_side *old, const struct body_side *new);
void script_free(struct script *s);

#endif
