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
	/* May outermost frames be left out of ips if the previous walk, whose state is reused, had the same? */
	bool may_leave;
	int left;       /* number of outermost frames that were left out; `count` includes them */
	bool is_stored; /* the state now has this walk's frames, and the last one is the outermost frame of the stack */
};

/* The state of a walk that reuses the frames of the previous one. */
struct reuse {
	struct etch_walk_frame *old;   /* frames of the previous walk */
	struct etch_walk_frame *fresh; /* frames of this walk, first to last */
	uint32_t at, end;              /* range of the old frames that this walk may still meet */
	uint32_t limit;                /* end, or 0 while on a stack that the old frames are not on */
	uint32_t count;                /* number of fresh frames */
	uint32_t followed;             /* number of frames found in the previous walk */
	int recorded;                  /* the walk's current frame is already stored as the last fresh one */
	int settled;                   /* `previous` already has what the next walk needs */
	int stored;                    /* `previous` has this walk's last frames */
	uint64_t mark;                 /* the flag that the next fresh frame gets in its ip: UNLINKED or 0 */
	struct window window;          /* the window that holds all fresh frames */
};

void reuse_begin(struct reuse *r, struct etch_walk *w);
/* Notes that the walk continues in the window `now`. */
void reuse_window(struct reuse *r, const struct etch_walk *w, const struct window *now);
/* Notes that the next frame does not follow from the one before by a plain rule. */
void reuse_unlink(struct reuse *r);
/* Decides after a walk of `count` frames whether the next walks are made without comparing and storing frames. */
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
 * Continues from a frame that reuse_met() has found, by the frames of the previous walk, for as long as the stack is
 * unchanged. Returns the end of what it stored at `out`. *status gets ETCH_UNWIND_OK if the walk goes on; else the
 * walk's final status, and the state is settled.
 */
void **reuse_follow(struct frame *f, struct trace *t, void **out, void **end, int *status);

/* Walks over plain frames as plain_walk() does, but also stops when it comes to a frame of the previous walk; that
 * frame is then not stored yet. */
void **reuse_walk(struct plain *p, struct frame *f, struct trace *t, void **out, void **end);

#endif
