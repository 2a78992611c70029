/* SPDX-License-Identifier: MIT */
/* What has to be taken out of and put into one sequence to get another. */
#ifndef DIFF_SCRIPT_H
#define DIFF_SCRIPT_H

#include "diff/body.h"

struct script {
	bool *gone, *come; /* by token of the old and of the new body */
	size_t gone_count, come_count;
	/* for script.c: */
	int64_t *to; /* by token of one: the same in the other, or -1 */
	int64_t *diagonals;
	size_t room[2], to_room, diagonal_room;
};

/* A function and its body, which body_name() has been over. */
struct script_side {
	const struct image *im;
	uint32_t func;
	const struct body *body;
};

/*
 * The shortest script between two bodies, or a short one where that would take long.
 * A jump is the same where its targets are. Reuses what is in *s.
 */
int script_make(struct script *s, const struct script_side *old, const struct script_side *new, struct error *e);
void script_free(struct script *s);

#endif
