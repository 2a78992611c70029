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

NO_ASAN static void **plain_module(const struct unwind_module *m, const struct window *window, struct frame *f,
                                   struct trace *t, void **out, void **end)
{
	struct plain p;

	p.block = &m->block;
	p.map = m->map;
	p.text = m->text;
	p.text_1 = m->text + 1;
	p.size = m->text_size;
	p.lo = window->lo;
	p.hi = window->hi;
	p.span = p.hi - 8 - p.lo;
	return t->previous ? reuse_walk(&p, f, t, out, end, m->by) : plain_walk(&p, f, out, end, m->by);
}

/*
 * Walks over plain frames from c's frame, whose rip is in the trace and which was not
 * `interrupted`, across modules. Returns ETCH_UNWIND_OK when c is at a frame for cursor_step() or
 * the trace is full; otherwise the walk is over.
 */
NO_ASAN static int plain_frames(struct cursor *c, struct trace *t)
{
	void **out = t->ips + t->count, **end = t->ips + t->max;
	struct frame f = {c->reg[ETCH_RIP], c->reg[ETCH_RSP], &lost};
	const struct unwind_module *m;
	int ret = ETCH_UNWIND_OK;

	if (c->known & KNOWN(ETCH_RBP)) {
		f.slot = &c->reg[ETCH_RBP];
		if (t->previous) {
			t->previous->rbp = c->reg[ETCH_RBP];
			f.slot = &t->previous->rbp;
		}
	}
	if (!window_has(&c->window, f.sp) && stack_window(f.sp, &c->window))
		return ETCH_UNWIND_OK;
	for (;;) {
		if (t->previous && !t->reuse->recorded) {
			reuse_window(t->reuse, t->previous, &c->window);
			if (reuse_met(t->reuse, &f, slot_load(&f))) {
				out = reuse_follow(&f, t, out, end, &ret);
				if (ret)
					break;
			}
		}
		m = cursor_enter(c, f.ip - 1);
		if (!m && c->without_tables) {
			void **from = out;

			out = kept_frames(c, &f, out, end);
			if (out == from)
				break;
			if (t->previous)
				reuse_unlink(t->reuse);
			if (out == end)
				break;
			continue;
		}
		if (!m)
			ret = ETCH_UNWIND_NOTABLE;
		if (!m || m->encoding != ETCH_ENCODING_BLOCK)
			break;
		out = plain_module(m, &c->window, &f, t, out, end);
		if (out == end)
			break;
		if (t->previous && !t->reuse->recorded)
			continue;
		if (f.ip - 1 - m->text < m->text_size)
			break;
	}
	c->reg[ETCH_RBP] = slot_load(&f);
	c->reg[ETCH_RIP] = f.ip;
	c->reg[ETCH_RSP] = f.sp;
	c->known = KNOWN(ETCH_RIP) | KNOWN(ETCH_RSP) | (f.slot != &lost ? KNOWN(ETCH_RBP) : 0);
	t->count = (int)(out - t->ips);
	return ret;
}

NO_ASAN static int walk(struct cursor *c, struct trace *t)
{
	int ret;

	if (t->max <= 0)
		return ETCH_UNWIND_LIMIT;
	for (;;) {
		t->ips[t->count++] = (void *)(uintptr_t)c->reg[ETCH_RIP];
		if (!c->interrupted) {
			ret = plain_frames(c, t);
			if (ret)
				return ret;
		}
		/* A further frame is only of interest for the status. */
		if (t->count == t->max && !t->status)
			return ETCH_UNWIND_LIMIT;
		ret = cursor_step(c);
		if (ret)
			return ret;
		if (t->count == t->max)
			return ETCH_UNWIND_LIMIT;
		if (t->previous)
			reuse_unlink(t->reuse);
	}
}

int cursor_walk(struct cursor *c, void **ips, int max, int *count)
{
	struct trace t = {.ips = ips, .max = max};
	int ret = walk(c, &t);

	*count = t.count;
	return ret;
}

UNWIND_API __attribute__((noinline)) int etch_backtrace(void **ips, int max)
{
	struct trace t = {.ips = ips, .max = max};
	struct cursor c;

	cursor_here(&c, __builtin_frame_address(0));
	walk(&c, &t);
	return t.count;
}

UNWIND_API __attribute__((noinline)) int etch_backtrace_from(const void *ucontext, void **ips, int max, int *status)
{
	struct trace t = {.ips = ips, .max = max, .status = !!status};
	struct cursor c;
	int ret;

	cursor_begin(&c, ucontext, __builtin_frame_address(0));
	ret = walk(&c, &t);
	if (status)
		*status = ret;
	return t.count;
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
	ret = walk(c, t);
	if (mine) {
		if (t->previous && !r.settled)
			reuse_keep(&r, w, ret, t->status);
		if (plain)
			w->pause--;
		else
			reuse_learn(&r, w, t->count);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		__atomic_store_n(&w->busy, 0, __ATOMIC_RELAXED);
	}
	return ret;
}

UNWIND_API __attribute__((noinline)) int etch_backtrace_reuse(struct etch_walk *w, const void *ucontext, void **ips,
                                                              int max, int *status)
{
	struct trace t = {.ips = ips, .max = max, .status = !!status};
	struct cursor c;
	int ret;

	cursor_begin(&c, ucontext, __builtin_frame_address(0));
	ret = cursor_walk_reuse(&c, w, &t);
	if (status)
		*status = ret;
	return t.count;
}

UNWIND_API void etch_walk_reset(struct etch_walk *w) { w->first = w->end = w->pause = 0; }
