/* SPDX-License-Identifier: MIT */
/* What has to be taken out of and put into one sequence to get another. */
#ifndef DIFF_SCRIPT_H
#define DIFF_SCRIPT_H

#include "diff/body.h"

struct script {
	bool *gone, *come; /* by token of the old and of the new body */
	size_t gone_count, come_count;
	int64_t *to;       /* by token of the old one: the same in the new one, or -1; count + 1 of them */
	int64_t *diagonals;
	size_t room[2], diagonal_room;
};

/*
 * The shortest script between two bodies that body_name() has been over, or a short one
 * where that would take long. A jump is the same where its targets are. Reuses what is in *s.
 */
int script_make(struct script *s, const struct body *old, const struct body *new, struct error *e);
void script_free(struct script *s);

#endif
