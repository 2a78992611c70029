/* SPDX-License-Identifier: MIT */
/*
 * The code under test. It is compiled once for each VARIANT, and the linker puts it at
 * one address, in a section of its own after everything else: so neither its place
 * nor that of the loop which calls it depends on the variant (docs/reports, lookups
 * says why that matters).
 */
#include "lookup.h"

#define PROBE __attribute__((section(".probe"), noinline, used))

enum { BLOCK_256, BLOCK_ODD, BLOCK_CONSTANT, SEARCH_ALL };

#define ODD_CONSTANT 250

static inline uint64_t answer(int32_t cfa_off, int32_t bp_off, unsigned cfa, unsigned saved)
{
	return (uint32_t)cfa_off | (uint64_t)(uint16_t)bp_off << 32 | (uint64_t)cfa << 48 | (uint64_t)saved << 56;
}

#if defined(BLOCK) || defined(MAP)
const int probe_map = 0
#ifdef MAP
	+ 1
#endif
	;
#ifdef MAP
const char probe_name[] = "block, return-address map";
#else
const char probe_name[] = "block";
#endif

PROBE uint64_t probe(const struct shapes *s, uint64_t offset)
{
	const struct etch_rule *r;
#ifdef MAP
	struct etch_map_rule m;

	if (etch_map_find_in(&s->block, offset, &m))
		return answer(m.cfa, m.bp, m.flags & ETCH_MAP_RBP ? ETCH_REG_RBP : ETCH_REG_RSP, m.bp != 0);
#endif
	r = etch_block_find_in(&s->block, offset - 1);
	return answer(r->cfa_off, r->bp_off, r->cfa, r->bp != ETCH_BP_SAME);
}
#else
const int probe_map = 0;
const char probe_name[] = NAME;

PROBE uint64_t probe(const struct shapes *s, uint64_t offset)
{
	const struct etch_orc_table *t = &s->orc;
	uint32_t lo = 0, hi = t->rows - 1;
	unsigned bits;
	uint64_t b;

	if (--offset >= t->text_size)
		return 0;
	if (LOOKUP == BLOCK_256) {
		b = offset >> ETCH_BLOCK_SHIFT;
		lo = t->lookup[b];
		hi = t->lookup[b + 1];
	} else if (LOOKUP != SEARCH_ALL) {
		b = offset / (LOOKUP == BLOCK_ODD ? s->odd_size : ODD_CONSTANT);
		lo = s->odd_lookup[b];
		hi = s->odd_lookup[b + 1];
	}
	lo = etch_orc_last(t, lo, hi, offset);
#ifdef WIDE
	const struct wide *o = &s->wide[lo];
#else
	const struct etch_orc *o = &t->orc[lo];
#endif
	bits = o->bits;
	return answer(o->sp_offset, o->bp_offset, (bits & 15) == ETCH_ORC_SP ? ETCH_REG_RSP : ETCH_REG_RBP,
	              (bits >> 4 & 15) != ETCH_ORC_UNDEFINED);
}
#endif
