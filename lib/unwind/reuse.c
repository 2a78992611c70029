/* SPDX-License-Identifier: MIT */
/*
 * reuse.c: walks that reuse the frames of the previous walk.
 *
 * RULES OF THIS FILE. All of it runs in signal context, on a thread stopped anywhere: no malloc, no lock, no
 * thread-local storage, no libc. Do not introduce any dependency there.
 *
 * A frame's ip, sp, slot and the word in the slot determine the next frame's sp and slot, by a rule of the table. So
 * if this walk meets an old frame with all four equal, and the words at the next old frame's sp - 8 and slot are
 * still the recorded ones, then the next frame is also the same, and so on. The relation between neighbours in the
 * array remains valid as long as code and tables do not change, even if the stack has changed in between.
 *
 * There are two exceptions: the successor of a frame that is not plain depends on more than these words, and memory
 * outside the window may be unreadable. So such a successor has the UNLINKED flag in its ip, and only frames of one
 * window are kept.
 *
 * The state has two arrays: one holds the previous walk, the other receives this one's frames. If a walk meets the
 * previous one and follows it to its end, only its first frames are new, and they are copied in front of the old
 * ones.
 */
#include "unwind/reuse.h"

#define UNLINKED  ((uint64_t)1 << 63)
#define FRAMES    ETCH_WALK_FRAMES
#define FRONT     128u                 /* free places for frames that are later put in front */
#define FRESH_MAX (FRAMES - FRONT - 1) /* less 1, because the frame after the last one is read, too */

void reuse_begin(struct reuse *r, struct etch_walk *w)
{
	/* If the state has been moved, old frames may point into its former place. */
	if (w->self != (uint64_t)(uintptr_t)w) {
		w->first = w->end = 0;
		w->self = (uint64_t)(uintptr_t)w;
	}
	r->old = w->frame[w->which & 1];
	r->fresh = w->frame[~w->which & 1] + FRONT;
	r->at = w->first;
	r->end = w->end;
	if (r->at == r->end)
		w->pause = 1; /* nothing to compare with */
	r->limit = r->count = r->followed = 0;
	r->recorded = r->settled = r->stored = 0;
	r->mark = UNLINKED;
	r->window.lo = UINT64_MAX;
	r->window.hi = 0;
}

void reuse_window(struct reuse *r, const struct etch_walk *w, const struct window *now)
{
	/* On another stack, drops the fresh frames of the one before. */
	if (now->lo > r->window.lo || now->hi < r->window.hi)
		r->count = 0;
	r->window = *now;
	r->limit = now->lo <= w->lo && now->hi >= w->hi ? r->end : 0;
}

void reuse_keep(struct reuse *r, struct etch_walk *w, int status, int asked)
{
	r->settled = 1;
	if (!r->count)
		return;
	r->stored = 1;
	w->which ^= 1;
	w->first = FRONT;
	w->end = FRONT + r->count;
	w->lo = r->window.lo;
	w->hi = r->window.hi;
	/* These statuses end a walk at the last frame in any case. A full trace was checked for one more frame only if
	 * the status was asked for. */
	w->status = ETCH_UNWIND_OK;
	if (r->recorded &&
	    (status == ETCH_UNWIND_END || status == ETCH_UNWIND_UNDEFINED || (status == ETCH_UNWIND_LIMIT && asked)))
		w->status = status;
}

/*
 * Storing and comparing frames costs a quarter more than a plain walk. If that was in vain, the next 2, 4, then 8
 * walks are plain. The walk after them, with a pause of 1, has no recent walk to compare itself with and is not
 * counted.
 */
#define PAUSES    3 /* the longest pause is 1 << PAUSES */
#define FEW       8 /* a walk with fewer frames is too short to judge by */
#define WORTHLESS 4 /* it was in vain if less than one of so many frames was found */

void reuse_learn(const struct reuse *r, struct etch_walk *w, int count)
{
	if (w->pause) {
		w->pause = 0;
	} else if (count >= FEW && r->followed * WORTHLESS < (uint32_t)count) {
		w->fruitless += w->fruitless < PAUSES;
		w->pause = (uint16_t)((1u << w->fruitless) + 1);
	} else {
		w->fruitless = 0;
	}
}

void reuse_unlink(struct reuse *r)
{
	r->recorded = 0;
	r->mark = UNLINKED;
}

/* Appends old frames to the fresh ones. Returns 1, or 0 if they do not fit. */
static int reuse_append(struct reuse *r, uint32_t from, uint32_t to)
{
	if (to - from > FRESH_MAX - r->count)
		return 0;
	while (from < to)
		r->fresh[r->count++] = r->old[from++];
	return 1;
}

/* Joins the fresh frames with the old frames from r->at on, which are the rest of this walk. */
static void reuse_join(struct reuse *r, struct etch_walk *w)
{
	r->settled = r->stored = 1;
	w->lo = r->window.lo; /* the larger window of the two */
	w->hi = r->window.hi;
	if (r->count <= r->at) {
		for (uint32_t i = r->count; i--;)
			r->old[--r->at] = r->fresh[i];
	} else if (reuse_append(r, r->at, r->end)) {
		w->which ^= 1;
		w->first = FRONT;
		w->end = FRONT + r->count;
		return;
	}
	w->first = r->at;
}

/* The walk is too deep to be kept. The state remains busy, because the current frame's slot may point into it. */
static void reuse_give_up(struct trace *t)
{
	t->previous->first = t->previous->end = 0;
	t->previous = NULL;
}

/* Follows the old frames after `at`, up to `stop`, for as long as the stack is unchanged, and returns the last one that
 * is. Their ips are stored at `out`, unless it is null. */
NO_ASAN static inline __attribute__((always_inline)) struct etch_walk_frame *
unchanged_until(struct etch_walk_frame *at, const struct etch_walk_frame *stop, void **out)
{
	while (at < stop && !(at[1].ip & UNLINKED) && memory_load(at[1].sp - 8) == at[1].ip &&
	       memory_load(at[1].slot) == at[1].bp) {
		at++;
		if (out)
			*out++ = (void *)(uintptr_t)at->ip;
	}
	return at;
}

/* Is the last old frame the outermost one of its stack? */
static bool is_complete(const struct etch_walk *w)
{
	return w->status == ETCH_UNWIND_END || w->status == ETCH_UNWIND_UNDEFINED;
}

NO_ASAN void **reuse_follow(struct frame *f, struct trace *t, void **out, void **end, int *status)
{
	struct reuse *r = t->reuse;
	struct etch_walk *w = t->previous;
	struct etch_walk_frame *met = &r->old[r->at], *last = &r->old[r->end - 1], *at, *stop = last;

	if (end - out < stop - met)
		stop = met + (end - out);
	r->followed += (uint32_t)(stop - met);
	at = t->may_leave ? unchanged_until(met, stop, NULL) : unchanged_until(met, stop, out);
	if (t->may_leave && at == last && is_complete(w))
		t->left = (int)(at - met);
	else if (t->may_leave)
		for (const struct etch_walk_frame *o = met; o < at; o++)
			out[o - met] = (void *)(uintptr_t)o[1].ip;
	out += at - met;
	if (!r->recorded)
		met->ip = f->ip | r->mark;
	r->mark = 0;
	r->recorded = 1;
	f->ip = at->ip & ~UNLINKED;
	f->sp = at->sp;
	f->slot = (const word *)(uintptr_t)at->slot;
	*status = ETCH_UNWIND_OK;
	if (at == last && w->status != ETCH_UNWIND_OK && (w->status != ETCH_UNWIND_LIMIT || out == end))
		*status = w->status;
	else if (out == end && (!t->status || (at < last && !(at[1].ip & UNLINKED))))
		*status = ETCH_UNWIND_LIMIT;
	if (*status != ETCH_UNWIND_OK) {
		reuse_join(r, w);
	} else if (reuse_append(r, r->at, (uint32_t)(at + 1 - r->old))) {
		r->at = (uint32_t)(at + 1 - r->old);
	} else {
		reuse_give_up(t);
	}
	return out;
}

NO_ASAN static inline __attribute__((always_inline)) void **
fast_reuse(struct plain *p, struct frame *frame, struct trace *t, void **out, void **end, const enum plain_by by)
{
	const struct steps steps = steps_of(p->m, &p->window);
	struct reuse r = *t->reuse;
	struct frame f = *frame;
	uint64_t bp = slot_load(&f);

	for (;;) {
		if (!r.recorded) {
			struct etch_walk_frame *to = &r.fresh[r.count];

			if (ETCH_UNLIKELY(r.count == FRESH_MAX)) {
				*frame = f;
				reuse_give_up(t);
				return out;
			}
			to->ip = f.ip | r.mark;
			to->sp = f.sp;
			to->slot = (uint64_t)(uintptr_t)f.slot;
			to->bp = bp;
			r.count++;
			r.mark = 0;
			r.recorded = 1;
		}
		if (out == end || !plain_step(p, &steps, &f, by))
			break;
		*out++ = (void *)(uintptr_t)f.ip;
		r.recorded = 0;
		bp = slot_load(&f);
		if (reuse_met(&r, &f, bp))
			break;
	}
	*frame = f;
	*t->reuse = r;
	return out;
}

NO_ASAN void **reuse_walk(struct plain *p, struct frame *f, struct trace *t, void **out, void **end)
{
	switch (p->m->by) {
	case PLAIN_MAP_6: return fast_reuse(p, f, t, out, end, PLAIN_MAP_6);
	case PLAIN_MAP_7: return fast_reuse(p, f, t, out, end, PLAIN_MAP_7);
	case PLAIN_MAP_6_RBP: return fast_reuse(p, f, t, out, end, PLAIN_MAP_6_RBP);
	case PLAIN_MAP_7_RBP: return fast_reuse(p, f, t, out, end, PLAIN_MAP_7_RBP);
	case PLAIN_MAP_6_OPEN: return fast_reuse(p, f, t, out, end, PLAIN_MAP_6_OPEN);
	case PLAIN_OLD_MAP: return fast_reuse(p, f, t, out, end, PLAIN_OLD_MAP);
	default: return fast_reuse(p, f, t, out, end, PLAIN_FULL);
	}
}
