/* SPDX-License-Identifier: MIT */
/* Computes the edit script between two bodies: which tokens to remove and which to insert. */
#ifndef DIFF_SCRIPT_H
#define DIFF_SCRIPT_H

#include "diff/body.h"

/* An edit script, with the work space for the next one. */
struct script {
	bool *removed, *inserted; /* by token of the old and of the new body: removed, inserted */
	size_t removed_count, inserted_count;
	/* The members below are private to script.c. */
	int64_t *to; /* for each token of one body: the equal token of the other, or -1 */
	int64_t *diagonals;
	size_t capacity[2], to_capacity, diagonal_capacity;
};

/*
 * Computes a shortest script between two bodies, after body_name(), or a longer one if that would take too much time.
 * Jumps are equal if their targets are. *s may be a script from an earlier call, whose memory is reused.
 */
void script_make(struct script *s, const struct body_side *old, const struct body_side *new);
void script_free(struct script *s);

#endif
