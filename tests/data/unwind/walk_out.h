/* SPDX-License-Identifier: MIT */
/* For programs that run shapes of assembly by single steps: the walk from a step to the caller that they know. */
#ifndef TESTS_UNWIND_WALK_OUT_H
#define TESTS_UNWIND_WALK_OUT_H

#include <stdint.h>

#include <etch/unwind.h>

/* A function of the shapes has at most so many frames of theirs above it. */
#define FRAMES_MOST 8

/* Steps with a cursor, at a context inside [begin, end), until it is out of there. False: a walk has ended before. */
static inline int walk_out(struct etch_cursor *c, void *context, const void *begin, const void *end)
{
	uint64_t at;
	int n;

	etch_cursor_init(c, context);
	for (n = 0; n < FRAMES_MOST; n++) {
		if (etch_step(c))
			return 0;
		etch_get_reg(c, ETCH_RIP, &at);
		if (at - (uintptr_t)begin >= (uintptr_t)end - (uintptr_t)begin)
			break;
	}
	return 1;
}

#endif
