/* SPDX-License-Identifier: MIT */
/*
 * plain_frames.c: the fast path over plain frames (plain_frames.h), one loop per kind of map.
 *
 * RULES OF THIS FILE. All of it runs in signal context, on a thread stopped anywhere:
 * no malloc, no lock, no thread-local storage, no libc. Do not introduce any dependency there.
 */
#include "unwind/plain_frames.h"

NO_ASAN WALK __attribute__((noinline)) int plain_full_step(struct plain *p, struct frame *f)
{
	uint64_t bp = slot_load(f), at = f->ip - 1 - p->m->text, cfa, from_sp, from_bp;
	const struct etch_rule *r;
	uint32_t kind;

	if (ETCH_UNLIKELY(at >= p->m->text_size))
		return 0;
	if (ETCH_UNLIKELY(p->m->encoding == MODULE_IN_PLACE))
		return in_place_step(p, f, false);
	r = etch_block_find_in(&p->m->block, at);
	__builtin_memcpy(&kind, &r->cfa, 4);
	/* cfa is rsp or rbp, bp is unchanged or saved at the CFA, kind is CALL, ra is at the CFA */
	if (ETCH_UNLIKELY((kind & ~0x0101u) != (ETCH_REG_RSP | ETCH_RULE_CALL << 16))) {
		p->ended = r->kind == ETCH_RULE_END && etch_rule_valid(r);
		return 0;
	}
	/* Computes both sums first and chooses then, because the base register is known later than the offset. */
	from_sp = f->sp + (uint64_t)(int64_t)r->cfa_off;
	from_bp = bp + (uint64_t)(int64_t)r->cfa_off;
	__asm__("" : "+r"(from_sp), "+r"(from_bp));
	cfa = kind & 1 ? from_bp : from_sp;
	return plain_move(&p->window, f, cfa, cfa + (uint64_t)(int64_t)r->bp_off, kind & 0x100);
}

NO_ASAN WALK __attribute__((noinline)) int plain_slow_step(struct plain *p, struct frame *f)
{
	uint64_t at = f->ip - p->m->text, cfa;
	struct etch_map_rule m;

	if (ETCH_UNLIKELY(p->m->encoding == MODULE_IN_PLACE))
		return in_place_step(p, f, true);
	if (at > p->m->text_size || !etch_map_find_in(&p->m->block, at, &m))
		return plain_full_step(p, f);
	cfa = (m.flags & ETCH_MAP_RBP ? slot_load(f) : f->sp) + (uint64_t)(int64_t)m.cfa;
	return plain_move(&p->window, f, cfa, cfa + (uint64_t)(int64_t)m.bp, m.bp != 0);
}

NO_ASAN static inline __attribute__((always_inline)) void **fast(struct plain *p, struct frame *frame, void **out,
                                                                 void **end, const enum plain_by by)
{
	const struct steps steps = steps_of(p->m, &p->window);

	for (;;) {
		struct frame f = *frame;

		if (by >= PLAIN_MAP_6 && f.sp - steps.lo >= STEP_BYTES)
			while (out < end && map_step(&steps, &f, by))
				*out++ = (void *)(uintptr_t)f.ip;
		*frame = f;
		if (out == end || !(by == PLAIN_FULL ? plain_full_step(p, frame) : plain_slow_step(p, frame)))
			return out;
		*out++ = (void *)(uintptr_t)frame->ip;
	}
}

NO_ASAN WALK void **plain_walk(struct plain *p, struct frame *f, void **out, void **end)
{
	/* Not a switch: its jump table would take two more cache lines. */
	const enum plain_by by = p->m->by;

	if (by == PLAIN_MAP_6)
		return fast(p, f, out, end, PLAIN_MAP_6);
	if (by == PLAIN_MAP_6_RBP)
		return fast(p, f, out, end, PLAIN_MAP_6_RBP);
	if (by == PLAIN_MAP_7)
		return fast(p, f, out, end, PLAIN_MAP_7);
	if (by == PLAIN_MAP_7_RBP)
		return fast(p, f, out, end, PLAIN_MAP_7_RBP);
	if (by == PLAIN_MAP_6_OPEN)
		return fast(p, f, out, end, PLAIN_MAP_6_OPEN);
	return by == PLAIN_OLD_MAP ? fast(p, f, out, end, PLAIN_OLD_MAP) : fast(p, f, out, end, PLAIN_FULL);
}
