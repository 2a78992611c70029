/* SPDX-License-Identifier: MIT */
/*
 * plain_frames.h: steps over plain frames, that is, ordinary frames with the CFA relative to rsp or rbp, and rbp
 * saved relative to the CFA or unchanged. For all others see cursor.h.
 *
 * A frame has the address of the slot where rbp is saved, not its value: only a rule relative to rbp has to wait for
 * that load. The inline functions are the body of a walk's loop.
 */
#ifndef ETCH_LIB_UNWIND_PLAIN_FRAMES_H
#define ETCH_LIB_UNWIND_PLAIN_FRAMES_H

#include "unwind/unwind_internal.h"

/* The position of a walk: a module with a block table, and the window. */
struct plain {
	const struct unwind_module *m;
	struct window window;
	bool ended; /* the walk has come to the rule of an outermost frame */
};

/* The values that a loop over plain frames keeps in registers. */
struct steps {
	uint64_t text, size, map, lo, hi; /* see struct unwind_module */
	const struct etch_block *block;
};

/* A frame. rbp is saved at *slot. */
struct frame {
	uint64_t ip, sp;
	const word *slot;
};

static inline __attribute__((always_inline)) struct steps steps_of(const struct unwind_module *m,
                                                                   const struct window *w)
{
	return (struct steps){m->text, m->text_size, m->map, w->lo, w->hi, &m->block};
}

NO_ASAN static inline __attribute__((always_inline)) uint64_t slot_load(const struct frame *f)
{
	return memory_load((uint64_t)(uintptr_t)f->slot);
}

/* Moves to the frame given by a CFA and a slot. Returns 1, or 0 if they are out of bounds. */
NO_ASAN static inline __attribute__((always_inline)) int plain_move(const struct window *w, struct frame *f,
                                                                    uint64_t cfa, uint64_t bp_at, uint32_t saved)
{
	/* lo is at least one page, so a CFA that is too low does not wrap around. */
	if (ETCH_UNLIKELY(cfa - 8 < f->sp) || ETCH_UNLIKELY(cfa > w->hi) ||
	    ETCH_UNLIKELY(bp_at - w->lo > w->hi - w->lo - 8))
		return 0;
	f->ip = memory_load(cfa - 8);
	f->slot = saved ? (const word *)(uintptr_t)bp_at : f->slot;
	f->sp = cfa;
	return 1;
}

/* Steps by a rule of the map's palette; the result is that of plain_move(), or 0 if the code stands for no rule. */
NO_ASAN static inline __attribute__((always_inline)) int palette_step(const struct steps *p, struct frame *f,
                                                                      uint64_t code)
{
	const struct etch_map_rule *r = &p->block->map_palette[code - ETCH_MAP_STEPS];
	uint64_t cfa;

	if (code - ETCH_MAP_STEPS >= p->block->map_codes - (uint64_t)ETCH_MAP_STEPS)
		return 0;
	cfa = (r->flags & ETCH_MAP_RBP ? slot_load(f) : f->sp) + (uint64_t)(int64_t)r->cfa;
	return plain_move(&(struct window){p->lo, p->hi}, f, cfa, cfa + (uint64_t)(int64_t)r->bp, r->bp != 0);
}

/* Bytes between rsp and the window's lower end that map_step() needs: it reads rbp at CFA - 48 and up. */
#define STEP_BYTES 48u

/*
 * Steps from a return address to the next frame by a map of steps. Returns 1, or 0 with *f unchanged. f->sp is at
 * least STEP_BYTES above the window's lower end, and only ascends.
 *
 * The critical path is one chain of loads: return address, map byte, next return address. So one instruction turns
 * the byte into the frame's size, and the load adds it to the base. Where frames with a frame pointer are frequent,
 * their base is selected without a branch, because a branch would be mispredicted; elsewhere the selection would take
 * longer than the branch, and the slot of rbp, which may be in a cache line of its own, is not read.
 */
NO_ASAN static inline __attribute__((always_inline)) int map_step(const struct steps *p, struct frame *f,
                                                                  const enum plain_by by)
{
	uint64_t base = f->sp, code, cfa, size, slot, bp;

	if (ETCH_UNLIKELY(f->ip - p->text > p->size))
		return 0;
	code = *(const uint8_t *)(uintptr_t)(p->map + (f->ip >> (by & PLAIN_SHIFT)));
	if (ETCH_UNLIKELY(by & PLAIN_OPEN ? code - 1 >= ETCH_MAP_STEPS - 1 : code >= ETCH_MAP_STEPS))
		return palette_step(p, f, code);
	if (by & PLAIN_RBP) {
		bp = slot_load(f) - 16 * (ETCH_MAP_RBP_FRAME & 31); /* such that the sum below is rbp + 16 */
		__asm__("cmpl %2, %k1\n\tcmove %3, %0" : "+r"(base) : "r"(code), "i"(ETCH_MAP_RBP_FRAME), "r"(bp) : "cc");
	} else if (ETCH_UNLIKELY(code == ETCH_MAP_RBP_FRAME)) {
		bp = slot_load(f);
		return plain_move(&(struct window){p->lo, p->hi}, f, bp + 16, bp, 1);
	}
	size = code;
	__asm__("shlb $3, %b0" : "+r"(size) : : "cc"); /* 8 * (code & 31) */
	cfa = base + 2 * size + 16;
	code >>= 5;
	slot = cfa + 8 * code - 48;
	/* A CFA above rsp needs no check that it ascends. lo is at least one page, so a CFA that is too low does not wrap
	 * around. */
	if (((by & PLAIN_RBP) && ETCH_UNLIKELY(cfa - 8 < f->sp)) || ETCH_UNLIKELY(cfa > p->hi))
		return 0;
	f->ip = memory_load_2(base, size);
	__asm__("cmpl $5, %k1\n\tcmovb %2, %0" : "+r"(f->slot) : "r"(code), "r"(slot) : "cc");
	f->sp = cfa;
	return 1;
}

/* Steps as map_step() does, but by the full table. For an interrupted instruction f->ip is its address plus 1. */
int plain_full_step(struct plain *p, struct frame *f);
/* Steps by a map byte of any other kind, or by the full table. */
int plain_slow_step(struct plain *p, struct frame *f);

/* Steps as plain_full_step() does, but in a module whose .eh_frame is read in place. returned: f->ip is a return
 * address. (cfi_map.c; a program that never reads a module in this way does not link it.) */
int in_place_step(struct plain *p, struct frame *f, bool returned) __attribute__((weak));

NO_ASAN static inline __attribute__((always_inline)) int plain_step(struct plain *p, const struct steps *steps,
                                                                    struct frame *f, const enum plain_by by)
{
	if (by < PLAIN_MAP_6 || ETCH_UNLIKELY(f->sp - steps->lo < STEP_BYTES) || !map_step(steps, f, by)) {
		struct frame copy = *f; /* so that *f may stay in registers */
		int ret = by == PLAIN_FULL ? plain_full_step(p, &copy) : plain_slow_step(p, &copy);

		*f = copy;
		return ret;
	}
	return 1;
}

/* Walks over plain frames and stores return addresses from `out` up to `end`; returns the new end of the trace. *f is
 * the last frame reached. */
void **plain_walk(struct plain *p, struct frame *f, void **out, void **end);

#endif
