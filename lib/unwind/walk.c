/* SPDX-License-Identifier: MIT */
/*
 * walk.c: walks of this thread's stack: etch_backtrace() and its variants.
 *
 * RULES OF THIS FILE. All of it runs in signal context, on a thread stopped anywhere:
 * no malloc, no lock, no thread-local storage, no libc. Do not introduce any dependency there.
 *
 * There is a slow and a fast path. cursor_step() handles every kind of frame, with register
 * values. plain_walk() handles nearly all frames, and stops at a frame that needs
 * cursor_step().
 */
#include "unwind/cursor.h"
#include "unwind/reuse.h"

static const word lost = 0; /* stands for an unknown rbp: a CFA computed from 0 lies below every stack */

/* The state of the previous walk, if this walk keeps its frames for the next one (`kept`). In a walk that keeps none
 * it is a constant null, so that the compiler removes the code that uses it. */
#define PREVIOUS(t) (kept ? (t)->previous : NULL)

/* Stores the callers of frames without a table whose rules are kept. Returns false if there are none. */
NO_ASAN static __attribute__((noinline)) bool untabled_frames(struct cursor *c, struct trace *t, struct frame *f,
                                                              void ***out, void **end)
{
	void **from = *out;

	*out = kept_frames(c, f, *out, end);
	if (*out == from)
		return false;
	if (t->previous)
		reuse_unlink(t->reuse);
	return *out < end;
}

NO_ASAN static inline __attribute__((always_inline)) void cursor_move(struct cursor *c, const struct frame *f)
{
	c->reg[ETCH_RBP] = slot_load(f);
	c->reg[ETCH_RIP] = f->ip;
	c->reg[ETCH_RSP] = f->sp;
	c->known = KNOWN(ETCH_RIP) | KNOWN(ETCH_RSP) | (f->slot != &lost ? KNOWN(ETCH_RBP) : 0);
}

/* Steps from an interrupted frame, if it is plain, by the full table, because the map knows only return addresses. */
NO_ASAN static inline __attribute__((always_inline)) bool
interrupted_step(struct cursor *c, struct trace *t, struct plain *p, struct frame *f, const int kept)
{
	if (!plain_full_step(p, f))
		return false;
	c->interrupted = 0;
	if (PREVIOUS(t)) {
		/* The same slot is used wherever the function was interrupted. */
		t->previous->rbp = slot_load(f);
		f->slot = &t->previous->rbp;
		reuse_unlink(t->reuse);
	}
	return true;
}

/*
 * Walks over plain frames from c's frame, whose rip is in the trace, across modules. Returns ETCH_UNWIND_OK when c is
 * at a frame for cursor_step() or the trace is full; otherwise the walk is over.
 */
NO_ASAN static inline __attribute__((always_inline)) int plain_frames(struct cursor *c, struct trace *t, const int kept)
{
	void **out = t->ips + t->count, **end = t->ips + t->max;
	struct frame f = {c->reg[ETCH_RIP] + (unsigned)c->interrupted, c->reg[ETCH_RSP], &lost};
	int ret = ETCH_UNWIND_OK;
	struct plain p;

	if (c->known & KNOWN(ETCH_RBP)) {
		f.slot = &c->reg[ETCH_RBP];
		if (PREVIOUS(t)) {
			t->previous->rbp = c->reg[ETCH_RBP];
			f.slot = &t->previous->rbp;
		}
	}
	if (!window_has(&c->window, f.sp) && stack_window(f.sp, &c->window))
		return ETCH_UNWIND_OK;
	p.window = c->window;
	p.ended = false;
	for (;;) {
		if (PREVIOUS(t) && !t->reuse->recorded && !c->interrupted) {
			reuse_window(t->reuse, t->previous, &c->window);
			if (reuse_met(t->reuse, &f, slot_load(&f))) {
				out = reuse_follow(&f, t, out, end, &ret);
				if (ret)
					break;
			}
		}
		p.m = cursor_enter(c, f.ip - 1);
		if (ETCH_UNLIKELY(!p.m)) {
			/* An interrupted frame may be in no code at all (no_code.c). */
			if (!c->without_tables && !c->interrupted)
				ret = ETCH_UNWIND_NOTABLE;
			else if (!c->interrupted && untabled_frames(c, t, &f, &out, end))
				continue;
			break;
		}
		if (out == end || ETCH_UNLIKELY(p.m->encoding == ETCH_ENCODING_ORC))
			break;
		if (c->interrupted) {
			if (!interrupted_step(c, t, &p, &f, kept))
				break;
			*out++ = (void *)(uintptr_t)f.ip;
			continue;
		}
		out = PREVIOUS(t) ? reuse_walk(&p, &f, t, out, end) : plain_walk(&p, &f, out, end);
		if (p.ended || out == end)
			break;
		if (PREVIOUS(t) && !t->reuse->recorded)
			continue;
		if (f.ip - 1 - c->text < c->text_size)
			break;
	}
	if (p.ended)
		ret = ETCH_UNWIND_END;
	if (c->interrupted)
		return ret;
	cursor_move(c, &f);
	t->count = (int)(out - t->ips);
	return ret;
}

/* Steps over the frame after those that plain_frames() walks over. */
NO_ASAN static __attribute__((noinline)) int other_frame(struct cursor *c, struct trace *t)
{
	int ret;

	if (c->interrupted && c->known != KNOWN_ALL)
		cursor_load_rest(c);
	ret = cursor_step(c);
	if (ret)
		return ret;
	if (t->count == t->max)
		return ETCH_UNWIND_LIMIT;
	if (t->previous)
		reuse_unlink(t->reuse);
	return ETCH_UNWIND_OK;
}

NO_ASAN static inline __attribute__((always_inline)) int walk_kept(struct cursor *c, struct trace *t, const int kept)
{
	int ret;

	if (t->max <= 0)
		return ETCH_UNWIND_LIMIT;
	for (;;) {
		t->ips[t->count++] = (void *)(uintptr_t)c->reg[ETCH_RIP];
		ret = plain_frames(c, t, kept);
		if (ret)
			return ret;
		/* Whether there is a further frame matters only for the status. */
		if (t->count == t->max && !t->status)
			return ETCH_UNWIND_LIMIT;
		ret = other_frame(c, t);
		if (ret)
			return ret;
	}
}

NO_ASAN WALK static __attribute__((noinline)) int walk(struct cursor *c, struct trace *t) { return walk_kept(c, t, 0); }

NO_ASAN static __attribute__((noinline)) int walk_reuse(struct cursor *c, struct trace *t)
{
	return walk_kept(c, t, 1);
}

WALK int cursor_walk(struct cursor *c, void **ips, int max, int *count)
{
	struct trace t = {.ips = ips, .max = max};
	int ret = walk(c, &t);

	*count = t.count;
	return ret;
}

/* The public status of a walk. */
static inline int status_of(const struct cursor *c, int ret)
{
	if (ETCH_UNLIKELY(c->assumed != 0))
		ret += ret < 0 ? -ETCH_UNWIND_ASSUMED : ETCH_UNWIND_ASSUMED;
	return ret;
}

UNWIND_API WALK __attribute__((noinline)) int etch_backtrace(void **ips, int max)
{
	struct trace t = {.ips = ips, .max = max};
	struct cursor c;

	cursor_here(&c, __builtin_frame_address(0));
	walk(&c, &t);
	return t.count;
}

int backtrace_from_unmarked(const void *ucontext, void **ips, int max, int *status) __asm__("etch_backtrace_from");
int backtrace_reuse_unmarked(struct etch_walk *w, const void *ucontext, void **ips, int max,
                             int *status) __asm__("etch_backtrace_reuse");

/* Makes the trace of the caller of a public function, whose frame is `frame`. */
static inline __attribute__((always_inline)) int backtrace_from(const void *frame, const void *ucontext, void **ips,
                                                                int max, int *status)
{
	struct trace t = {.ips = ips, .max = max, .status = !!status};
	struct cursor c;
	int ret;

	cursor_begin_walk(&c, ucontext, frame);
	ret = walk(&c, &t);
	if (status)
		*status = status_of(&c, ret);
	return t.count;
}

UNWIND_API WALK __attribute__((noinline)) int etch_backtrace_from(const void *ucontext, void **ips, int max,
                                                                  int *status)
{
	return backtrace_from(__builtin_frame_address(0), ucontext, ips, max, status);
}

/* etch_backtrace_from() for programs that were compiled before a status could be marked (etch/unwind.h). */
UNWIND_API WALK __attribute__((noinline)) int backtrace_from_unmarked(const void *ucontext, void **ips, int max,
                                                                      int *status)
{
	int count = backtrace_from(__builtin_frame_address(0), ucontext, ips, max, status);

	if (status)
		*status = etch_unwind_reason(*status);
	return count;
}

int cursor_walk_reuse(struct cursor *c, struct etch_walk *w, struct trace *t)
{
	struct reuse r;
	int ret, mine = 0, plain = 0;

	/* A signal handler may have interrupted this function in the same thread. */
	if (!__atomic_load_n(&w->busy, __ATOMIC_RELAXED)) {
		__atomic_store_n(&w->busy, 1, __ATOMIC_RELAXED);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		mine = 1;
		plain = w->pause > 1;
		if (!plain) {
			t->previous = w;
			t->reuse = &r;
			reuse_begin(&r, w);
		}
	}
	ret = t->previous ? walk_reuse(c, t) : walk(c, t);
	if (mine) {
		if (t->previous && !r.settled)
			reuse_keep(&r, w, ret, t->status);
		t->is_stored =
			t->previous && r.stored && ret == w->status && (ret == ETCH_UNWIND_END || ret == ETCH_UNWIND_UNDEFINED);
		if (plain)
			w->pause--;
		else
			reuse_learn(&r, w, t->count);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		__atomic_store_n(&w->busy, 0, __ATOMIC_RELAXED);
	}
	return ret;
}

static inline __attribute__((always_inline)) int backtrace_reuse(const void *frame, struct etch_walk *w,
                                                                 const void *ucontext, void **ips, int max, int *status)
{
	struct trace t = {.ips = ips, .max = max, .status = !!status};
	struct cursor c;
	int ret;

	cursor_begin_walk(&c, ucontext, frame);
	ret = cursor_walk_reuse(&c, w, &t);
	if (status)
		*status = status_of(&c, ret);
	return t.count;
}

UNWIND_API WALK __attribute__((noinline)) int etch_backtrace_reuse(struct etch_walk *w, const void *ucontext,
                                                                   void **ips, int max, int *status)
{
	return backtrace_reuse(__builtin_frame_address(0), w, ucontext, ips, max, status);
}

/* etch_backtrace_reuse() for programs that were compiled before a status could be marked. */
UNWIND_API WALK __attribute__((noinline)) int backtrace_reuse_unmarked(struct etch_walk *w, const void *ucontext,
                                                                       void **ips, int max, int *status)
{
	int count = backtrace_reuse(__builtin_frame_address(0), w, ucontext, ips, max, status);

	if (status)
		*status = etch_unwind_reason(*status);
	return count;
}

UNWIND_API void etch_walk_reset(struct etch_walk *w) { w->first = w->end = w->pause = 0; }
