/* SPDX-License-Identifier: MIT */
/*
 * reuse.h: walks that reuse the frames of the previous walk (reuse.c).
 */
#ifndef ETCH_LIB_UNWIND_REUSE_H
#define ETCH_LIB_UNWIND_REUSE_H

#include "unwind/cursor.h"
#include "unwind/plain_frames.h"

/* The output of a walk. */
struct trace {
	void **ips;
	int count, max;
	int status;                 /* the caller asked for the status */
	struct etch_walk *previous; /* state to reuse; null: none */
	struct reuse *reuse;
};

struct reuse {
	struct etch_walk_frame *old;   /* frames of the previous walk */
	struct etch_walk_frame *fresh; /* frames of this walk, first to last */
	uint32_t at, end;              /* range of the old frames that this walk may still meet */
	uint32_t limit;                /* end, or 0 while on a stack that the old frames are not on */
	uint32_t count;                /* number of fresh frames */
	uint32_t followed;             /* number of frames found in the previous walk */
	int recorded;                  /* the walk's current frame is already stored as the last fresh one */
	int settled;                   /* the state is ready for the next walk */
	uint64_t mark;                 /* UNLINKED or 0: flag for the next fresh frame */
	struct window window;          /* the window that holds all fresh frames */
};

void reuse_begin(struct reuse *r, struct etch_walk *w);
/* Notes that the walk continues in the window `now`. */
void reuse_window(struct reuse *r, const struct etch_walk *w, const struct window *now);
/* Notes that the next frame does not follow from the one before by a plain rule. */
void reuse_unlink(struct reuse *r);
/* Decides after a walk of `count` frames whether the next ones are plain. */
void reuse_learn(const struct reuse *r, struct etch_walk *w, int count);
/* Saves the fresh frames for the next walk. `asked`: the caller asked for the status. */
void reuse_keep(struct reuse *r, struct etch_walk *w, int status, int asked);

/* Walks from c's frame, with the frames of the previous walk; with t->status, also finds out whether a full trace is
 * complete. Returns why it ended. (walk.c) */
int cursor_walk_reuse(struct cursor *c, struct etch_walk *w, struct trace *t);

/*
 * Is this frame one of the previous walk's? If so, r->at is its index. Both walks go outward; one step of this walk
 * skips at most two old frames, without a branch that may be mispredicted.
 */
NO_ASAN static inline __attribute__((always_inline)) int reuse_met(struct reuse *r, const struct frame *f, uint64_t bp)
{
	const struct etch_walk_frame *old = &r->old[r->at];
	uint64_t differ;

	if (ETCH_UNLIKELY(r->at >= r->limit))
		return 0;
	differ = (old->sp ^ f->sp) | (old->ip ^ f->ip) << 1 | (old->slot ^ (uint64_t)(uintptr_t)f->slot) | (old->bp ^ bp);
	if (ETCH_UNLIKELY(!differ))
		return 1;
	r->at += (uint32_t)(old[0].sp <= f->sp) + (uint32_t)((old[0].sp <= f->sp) & (old[1].sp <= f->sp));
	return 0;
}

/*
 * Continues from a met frame for as long as the stack is unchanged. *status gets the walk's final status, and then
 * the state is settled; or ETCH_UNWIND_OK.
 */
void **reuse_follow(struct frame *f, struct trace *t, void **out, void **end, int *status);

/* plain_walk() with a previous walk; it also stops at a frame of that walk, which is then not stored yet. */
void **reuse_walk(struct plain *p, struct frame *f, struct trace *t, void **out, void **end);

#endif
