/* SPDX-License-Identifier: MIT */
/*
 * plain_frames.h: steps over plain frames, that is ordinary frames with the CFA relative to rsp
 * or rbp, and rbp saved relative to the CFA or unchanged. For all others see cursor.h.
 *
 * A frame has the address of the slot where rbp is saved, not its value: only a rule relative to
 * rbp has to wait for that load. The inline functions are the body of a walk's loop.
 */
#ifndef ETCH_LIB_UNWIND_PLAIN_FRAMES_H
#define ETCH_LIB_UNWIND_PLAIN_FRAMES_H

#include "unwind/unwind_internal.h"

/* What a loop over plain frames keeps in registers. */
struct plain {
	uint64_t text, size, text_1; /* text_1: text + 1 */
	uint64_t lo, hi, span;       /* the window; span = hi - lo - 8 */
	uint64_t map;                /* the map's address minus text >> shift: indexed by address >> shift */
	const struct etch_block *block;
};

/* A frame. rbp is saved at *slot. */
struct frame {
	uint64_t ip, sp;
	const word *slot;
};

NO_ASAN static inline uint64_t slot_load(const struct frame *f) { return memory_load((uint64_t)(uintptr_t)f->slot); }

/* Moves to the frame given by a CFA and a slot. Returns 1, or 0 if they are out of bounds. */
NO_ASAN static inline __attribute__((always_inline)) int plain_move(const struct plain *p, struct frame *f,
                                                                    uint64_t cfa, uint64_t bp_at, uint32_t saved)
{
	/* lo is at least one page, so a CFA that is too low does not wrap around. */
	if (ETCH_UNLIKELY(cfa - 8 < f->sp) || ETCH_UNLIKELY(cfa > p->hi) || ETCH_UNLIKELY(bp_at - p->lo > p->span))
		return 0;
	f->ip = memory_load(cfa - 8);
	f->slot = saved ? (const word *)(uintptr_t)bp_at : f->slot;
	f->sp = cfa;
	return 1;
}

/* Steps by a rule of the map's palette, as plain_move(). Returns 0 if the code stands for none. */
NO_ASAN static inline __attribute__((always_inline)) int palette_step(const struct plain *p, struct frame *f,
                                                                      uint64_t bp, uint64_t code)
{
	const struct etch_map_rule *r = &p->block->map_palette[code - ETCH_MAP_STEPS];
	uint64_t cfa;

	if (code >= p->block->map_codes)
		return 0;
	cfa = (r->flags & ETCH_MAP_RBP ? bp : f->sp) + (uint64_t)(int64_t)r->cfa;
	return plain_move(p, f, cfa, cfa + (uint64_t)(int64_t)r->bp, r->bp != 0);
}

/* Bytes between rsp and the window's lower end that map_step() needs: it reads rbp at CFA - 48 and up. */
#define STEP_ROOM 48u

/*
 * Steps from a return address to the next frame by a map of steps. Returns 1; or 0 with *f unchanged.
 * bp: the word at f->slot. f->sp is at least STEP_ROOM above the window's lower end, and goes up.
 *
 * The critical path is one chain of loads: return address, map byte, next return address. So one instruction makes
 * the frame's size of the byte, and the load adds it to the base. Where frames behind rbp are frequent, their base
 * is selected, since a branch would be mispredicted; elsewhere the selection would take longer than what it selects.
 */
NO_ASAN static inline __attribute__((always_inline)) int map_step(const struct plain *p, struct frame *f, uint64_t bp,
                                                                  const enum plain_by by)
{
	uint64_t base = f->sp, code, cfa, size, slot;

	if (ETCH_UNLIKELY(f->ip - p->text > p->size))
		return 0;
	code = *(const uint8_t *)(uintptr_t)(p->map + (f->ip >> (by & PLAIN_SHIFT)));
	if (ETCH_UNLIKELY(code >= ETCH_MAP_STEPS))
		return palette_step(p, f, bp, code);
	if (by & PLAIN_RBP) {
		bp -= 16 * (ETCH_MAP_RBP_FRAME & 31); /* such that the sum below is rbp + 16 */
		__asm__("cmpl %2, %k1\n\tcmove %3, %0" : "+r"(base) : "r"(code), "i"(ETCH_MAP_RBP_FRAME), "r"(bp) : "cc");
	} else if (ETCH_UNLIKELY(code == ETCH_MAP_RBP_FRAME)) {
		return plain_move(p, f, bp + 16, bp, 1);
	}
	size = code;
	__asm__("shlb $3, %b0" : "+r"(size) : : "cc"); /* 8 * (code & 31) */
	cfa = base + 2 * size + 16;
	code >>= 5;
	slot = cfa + 8 * code - 48;
	/* lo is at least one page, so a CFA that is too low does not wrap around. */
	if (ETCH_UNLIKELY(cfa - 8 < f->sp) || ETCH_UNLIKELY(cfa > p->hi))
		return 0;
	f->ip = memory_load_2(base, size);
	__asm__("cmpl $5, %k1\n\tcmovb %2, %0" : "+r"(f->slot) : "r"(code), "r"(slot) : "cc");
	f->sp = cfa;
	return 1;
}

/* As map_step(), by the full table. */
NO_ASAN static inline __attribute__((always_inline)) int full_step(const struct plain *p, struct frame *f, uint64_t bp)
{
	const struct etch_rule *r;
	uint64_t cfa, from_sp, from_bp;
	uint32_t kind;

	if (ETCH_UNLIKELY(f->ip - p->text_1 >= p->size))
		return 0;
	r = etch_block_find_in(p->block, f->ip - p->text_1);
	__builtin_memcpy(&kind, &r->cfa, 4);
	/* cfa is rsp or rbp, bp is same or saved at the CFA, kind is CALL, ra is at the CFA */
	if (ETCH_UNLIKELY((kind & ~0x0101u) != (ETCH_REG_RSP | ETCH_RULE_CALL << 16)))
		return 0;
	/* Both sums first, then the choice: the base register is known later than the offset. */
	from_sp = f->sp + (uint64_t)(int64_t)r->cfa_off;
	from_bp = bp + (uint64_t)(int64_t)r->cfa_off;
	__asm__("" : "+r"(from_sp), "+r"(from_bp));
	cfa = kind & 1 ? from_bp : from_sp;
	return plain_move(p, f, cfa, cfa + (uint64_t)(int64_t)r->bp_off, kind & 0x100);
}

/* Steps by what the map says in any other way, or by the full table. */
int plain_slow_step(const struct plain *p, struct frame *f);

NO_ASAN static inline __attribute__((always_inline)) int plain_step(const struct plain *p, struct frame *f, uint64_t bp,
                                                                    const enum plain_by by)
{
	if (by == PLAIN_FULL)
		return full_step(p, f, bp);
	if (by == PLAIN_OLD_MAP || ETCH_UNLIKELY(f->sp - p->lo < STEP_ROOM) || !map_step(p, f, bp, by)) {
		struct frame copy = *f; /* so that *f may stay in registers */
		int ret = plain_slow_step(p, &copy);

		*f = copy;
		return ret;
	}
	return 1;
}

/* Walks over plain frames and stores return addresses from `out` up to `end`; returns the new end of
 * the trace. *f is the last frame reached. */
void **plain_walk(const struct plain *p, struct frame *f, void **out, void **end, enum plain_by by);

#endif
