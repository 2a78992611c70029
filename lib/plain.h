/* SPDX-License-Identifier: MIT */
/*
 * plain.h: what nearly all frames need: an ordinary frame, CFA from rsp or rbp, rbp saved
 * relative to the CFA or not at all. Anything else is for cursor.h.
 *
 * A frame carries the address of the slot where rbp is saved, not its value: only a rule
 * that counts from rbp waits for that load. What is inlined here is the loop of a walk.
 */
#ifndef ETCH_PLAIN_H
#define ETCH_PLAIN_H

#include "unwind_internal.h"

/* What a loop over plain frames keeps at hand. */
struct plain {
	uint64_t text, size, text_1; /* text_1: text + 1 */
	uint64_t lo, hi, span; /* the window, and its size less 8 */
	uint64_t map;          /* its address less that of the text in granules: it points before the map */
	uint64_t codes, rbp_codes; /* map bytes below are rules; of those, from here on with a CFA from rbp */
	const struct etch_map_rule *rules;
	const struct etch_block *block;
};

/* A frame. The slot is where its rbp is saved. */
struct frame {
	uint64_t ip, sp;
	const word *slot;
};

NO_ASAN static inline uint64_t slot_load(const struct frame *f) { return memory_load((uint64_t)(uintptr_t)f->slot); }

/* To the frame that the CFA and the slot are for, if that lies where it may. */
NO_ASAN static inline __attribute__((always_inline)) int plain_move(const struct plain *p, struct frame *f, uint64_t cfa,
                                                                    uint64_t bp_at, uint32_t saved)
{
	/* lo is at least a page, so that a CFA that is too low does not wrap. */
	if (ETCH_ODD(cfa - 8 < f->sp) || ETCH_ODD(cfa > p->hi) || ETCH_ODD(bp_at - p->lo > p->span))
		return 0;
	f->ip = memory_load(cfa - 8);
	f->slot = saved ? (const word *)(uintptr_t)bp_at : f->slot;
	f->sp = cfa;
	return 1;
}

/*
 * From the frame of a return address to the next by the rule that the map has for it:
 * 1; or 0 and *f is as it was. bp: what is in f->slot.
 *
 * What a walk waits for is one chain of loads: return address, map byte, rule, next
 * return address. The map byte alone says from which register the CFA counts, while the
 * rule is still being loaded. The CFA is loaded by an instruction of its own, because
 * the compiler computes the rule's address first, a cycle more.
 */
NO_ASAN static inline __attribute__((always_inline)) int map_step(const struct plain *p, struct frame *f, uint64_t bp,
                                                                  const unsigned shift)
{
	uint64_t code, cfa, rest;
	int64_t cfa_off, bp_off;

	if (ETCH_ODD(f->ip - p->text > p->size))
		return 0;
	code = *(const uint8_t *)(uintptr_t)(p->map + (f->ip >> shift));
	if (ETCH_ODD(code >= p->codes))
		return 0;
	__asm__("movslq (%1,%2,8), %0" : "=r"(cfa_off) : "r"(p->rules), "r"(code), "m"(p->rules[code]));
	rest = *(const uint32_t *)(const void *)((const uint8_t *)&p->rules[code] + 4);
	cfa = (code >= p->rbp_codes ? bp : f->sp) + (uint64_t)cfa_off;
	bp_off = (int16_t)rest;
	return plain_move(p, f, cfa, cfa + (uint64_t)bp_off, bp_off != 0);
}

/* The same by the full table. */
NO_ASAN static inline __attribute__((always_inline)) int full_step(const struct plain *p, struct frame *f, uint64_t bp)
{
	const struct etch_rule *r;
	uint64_t cfa, from_sp, from_bp;
	uint32_t kind;

	if (ETCH_ODD(f->ip - p->text_1 >= p->size))
		return 0;
	r = etch_block_find_in(p->block, f->ip - p->text_1);
	__builtin_memcpy(&kind, &r->cfa, 4);
	/* cfa rsp or rbp, bp same or at the CFA, kind CALL, ra at the CFA */
	if (ETCH_ODD((kind & ~0x0101u) != (ETCH_REG_RSP | ETCH_RULE_CALL << 16)))
		return 0;
	/* Both sums, then the choice: which register it is takes longer to know. */
	from_sp = f->sp + (uint64_t)(int64_t)r->cfa_off;
	from_bp = bp + (uint64_t)(int64_t)r->cfa_off;
	__asm__("" : "+r"(from_sp), "+r"(from_bp));
	cfa = kind & 1 ? from_bp : from_sp;
	return plain_move(p, f, cfa, cfa + (uint64_t)(int64_t)r->bp_off, kind & 0x100);
}

/* By an exception of the map, or the full table. */
int plain_odd_step(const struct plain *p, struct frame *f);

/* Whatever kind of map there is: 0 for none. */
NO_ASAN static inline __attribute__((always_inline)) int plain_step(const struct plain *p, struct frame *f, uint64_t bp,
                                                                    const unsigned shift)
{
	return shift ? map_step(p, f, bp, shift) : full_step(p, f, bp);
}

/*
 * Over plain frames, into the trace from out to end; returns its new end. Leaves *f at the
 * last one. By a full table, or a map of 64 or 128 bytes of code each.
 */
void **plain_0(const struct plain *p, struct frame *f, void **out, void **end);
void **plain_6(const struct plain *p, struct frame *f, void **out, void **end);
void **plain_7(const struct plain *p, struct frame *f, void **out, void **end);

#endif
