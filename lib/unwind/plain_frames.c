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
	uint64_t bp = slot_load(f), cfa;
	struct etch_map_rule m;

	if (f->ip - p->text > p->size || !etch_map_find_in(p->block, f->ip - p->text, &m))
		return full_step(p, f, bp);
	cfa = (m.flags & ETCH_MAP_RBP ? bp : f->sp) + (uint64_t)(int64_t)m.cfa;
	return plain_move(p, f, cfa, cfa + (uint64_t)(int64_t)m.bp, m.bp != 0);
}

NO_ASAN static inline __attribute__((always_inline)) void **fast(const struct plain *p, struct frame *frame, void **out,
                                                                 void **end, const enum plain_by by)
{
	for (;;) {
		struct frame f = *frame;

		if (by >= PLAIN_MAP_6 && f.sp - p->lo >= STEP_ROOM)
			while (out < end && map_step(p, &f, slot_load(&f), by))
				*out++ = (void *)(uintptr_t)f.ip;
		else if (by == PLAIN_FULL)
			while (out < end && full_step(p, &f, slot_load(&f)))
				*out++ = (void *)(uintptr_t)f.ip;
		*frame = f;
		if (out == end || by == PLAIN_FULL || !plain_slow_step(p, frame))
			return out;
		*out++ = (void *)(uintptr_t)frame->ip;
	}
}

NO_ASAN void **plain_walk(const struct plain *p, struct frame *f, void **out, void **end, enum plain_by by)
{
	switch (by) {
	case PLAIN_MAP_6: return fast(p, f, out, end, PLAIN_MAP_6);
	case PLAIN_MAP_7: return fast(p, f, out, end, PLAIN_MAP_7);
	case PLAIN_MAP_6_RBP: return fast(p, f, out, end, PLAIN_MAP_6_RBP);
	case PLAIN_MAP_7_RBP: return fast(p, f, out, end, PLAIN_MAP_7_RBP);
	case PLAIN_OLD_MAP: return fast(p, f, out, end, PLAIN_OLD_MAP);
	default: return fast(p, f, out, end, PLAIN_FULL);
	}
}
