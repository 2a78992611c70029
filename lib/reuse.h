/* SPDX-License-Identifier: MIT */
/*
 * reuse.h: walks that take over what an earlier one has found (reuse.c).
 */
#ifndef ETCH_REUSE_H
#define ETCH_REUSE_H

#include "plain.h"

/* Where a walk puts what it finds. */
struct trace {
	void **ips;
	int count, max;
	int status;                 /* it is wanted */
	struct etch_walk *previous; /* to be reused; null: none */
	struct reuse *reuse;
};

struct reuse {
	struct etch_walk_frame *old;   /* the previous walk's array */
	struct etch_walk_frame *fresh; /* this one's, from its first frame */
	uint32_t at, end;      /* of the old ones those that may still be met */
	uint32_t limit;        /* end, or 0 on a stack that they are not of */
	uint32_t count;        /* fresh ones */
	int recorded;          /* the frame that the walk is at is the last of the fresh ones */
	int settled;           /* the state is ready for the next walk */
	uint64_t mark;         /* UNLINKED, or 0: for the next fresh frame */
	struct window window;  /* that holds the fresh ones */
};

void reuse_begin(struct reuse *r, struct etch_walk *w);
/* What is found from here on is in this window. */
void reuse_window(struct reuse *r, const struct etch_walk *w, const struct window *now);
/* The next frame is one that the one before does not lead to by a plain rule. */
void reuse_unlink(struct reuse *r);
/* The fresh frames are what the next walk may meet. `asked`: for the status. */
void reuse_keep(struct reuse *r, struct etch_walk *w, int status, int asked);

/*
 * Is this frame one of the previous walk's? r->at is then that one. Both walks go
 * outward; a step of this one passes two of the other's at most, without a branch that
 * would have to be guessed.
 */
NO_ASAN static inline __attribute__((always_inline)) int reuse_met(struct reuse *r, const struct frame *f, uint64_t bp)
{
	const struct etch_walk_frame *old = &r->old[r->at];
	uint64_t differ;

	if (ETCH_ODD(r->at >= r->limit))
		return 0;
	differ = (old->sp ^ f->sp) | (old->ip ^ f->ip) << 1 | (old->slot ^ (uint64_t)(uintptr_t)f->slot) | (old->bp ^ bp);
	if (ETCH_ODD(!differ))
		return 1;
	r->at += (uint32_t)(old[0].sp <= f->sp) + (uint32_t)((old[0].sp <= f->sp) & (old[1].sp <= f->sp));
	return 0;
}

/*
 * From a frame that has been met, as far as the stack is the same. *status: that of the
 * walk if it is over, with its state settled; or ETCH_UNWIND_OK.
 */
void **reuse_follow(struct frame *f, struct trace *t, void **out, void **end, int *status);

/* plain_0() and so on with a previous walk; they end at a frame of that walk too, which is
 * then not yet recorded. */
void **reuse_0(const struct plain *p, struct frame *f, struct trace *t, void **out, void **end);
void **reuse_6(const struct plain *p, struct frame *f, struct trace *t, void **out, void **end);
void **reuse_7(const struct plain *p, struct frame *f, struct trace *t, void **out, void **end);

#endif
