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
	uint64_t codes, rbp_codes;   /* map bytes below `codes` are rules; those from rbp_codes on have a CFA
	                              * relative to rbp */
	const struct etch_map_rule *rules;
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

/*
 * Steps from a return address to the next frame by the map. Returns 1; or 0 with *f unchanged.
 * bp: the word at f->slot.
 *
 * The critical path is one chain of loads: return address, map byte, rule, next return address.
 * The map byte alone selects the CFA's base register while the rule is still being loaded. The
 * CFA offset is loaded by an instruction of its own, because the compiler would compute the
 * rule's address first, which costs a cycle.
 */
NO_ASAN static inline __attribute__((always_inline)) int map_step(const struct plain *p, struct frame *f, uint64_t bp,
                                                                  const unsigned shift)
{
	uint64_t code, cfa, rest;
	int64_t cfa_off, bp_off;

	if (ETCH_UNLIKELY(f->ip - p->text > p->size))
		return 0;
	code = *(const uint8_t *)(uintptr_t)(p->map + (f->ip >> shift));
	if (ETCH_UNLIKELY(code >= p->codes))
		return 0;
	__asm__("movslq (%1,%2,8), %0" : "=r"(cfa_off) : "r"(p->rules), "r"(code), "m"(p->rules[code]));
	rest = *(const uint32_t *)(const void *)((const uint8_t *)&p->rules[code] + 4);
	cfa = (code >= p->rbp_codes ? bp : f->sp) + (uint64_t)cfa_off;
	bp_off = (int16_t)rest;
	return plain_move(p, f, cfa, cfa + (uint64_t)bp_off, bp_off != 0);
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

/* Steps by an exception of the map, or by the full table. */
int plain_slow_step(const struct plain *p, struct frame *f);

/* Steps by the map with this shift, or by the full table for shift 0. */
NO_ASAN static inline __attribute__((always_inline)) int plain_step(const struct plain *p, struct frame *f, uint64_t bp,
                                                                    const unsigned shift)
{
	return shift ? map_step(p, f, bp, shift) : full_step(p, f, bp);
}

/*
 * Walk over plain frames and store return addresses from `out` up to `end`; return the new end of
 * the trace. *f is the last frame reached. plain_0 uses the full table, plain_6 and plain_7 a map
 * with granules of 64 and 128 bytes.
 */
void **plain_0(const struct plain *p, struct frame *f, void **out, void **end);
void **plain_6(const struct plain *p, struct frame *f, void **out, void **end);
void **plain_7(const struct plain *p, struct frame *f, void **out, void **end);

#endif
