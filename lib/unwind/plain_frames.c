/* SPDX-License-Identifier: MIT */
/*
 * plain_frames.c: the fast path over plain frames (plain_frames.h), one loop per kind of map.
 *
 * RULES OF THIS FILE. All of it runs in signal context, on a thread stopped anywhere:
 * no malloc, no lock, no thread-local storage, no libc. Do not introduce any dependency there.
 */
#include "unwind/plain_frames.h"

NO_ASAN __attribute__((noinline)) int plain_slow_step(const struct plain *p, struct frame *f)
{
	const struct etch_map_rule *m = NULL;
	uint64_t bp = slot_load(f), cfa;

	if (f->ip - p->text <= p->size)
		m = etch_map_find_in(p->block, f->ip - p->text);
	if (!m)
		return full_step(p, f, bp);
	cfa = (m->flags & ETCH_MAP_RBP ? bp : f->sp) + (uint64_t)(int64_t)m->cfa;
	return plain_move(p, f, cfa, cfa + (uint64_t)(int64_t)m->bp, m->bp != 0);
}

NO_ASAN static inline __attribute__((always_inline)) void **fast(const struct plain *p, struct frame *frame, void **out,
                                                                 void **end, const unsigned shift)
{
	for (;;) {
		struct frame f = *frame;

		while (out < end && plain_step(p, &f, slot_load(&f), shift))
			*out++ = (void *)(uintptr_t)f.ip;
		*frame = f;
		if (out == end || !shift || !plain_slow_step(p, frame))
			return out;
		*out++ = (void *)(uintptr_t)frame->ip;
	}
}

NO_ASAN void **plain_0(const struct plain *p, struct frame *f, void **out, void **end)
{
	return fast(p, f, out, end, 0);
}

NO_ASAN void **plain_6(const struct plain *p, struct frame *f, void **out, void **end)
{
	return fast(p, f, out, end, 6);
}

NO_ASAN void **plain_7(const struct plain *p, struct frame *f, void **out, void **end)
{
	return fast(p, f, out, end, 7);
}
