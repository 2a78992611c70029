/* SPDX-License-Identifier: MIT */
/*
 * etch/orc_arrays.h: lookups and checks of the orc encoding (etch/orc.h), which consists of
 * parallel arrays. Signal safety, thread safety and hostile tables: as in etch/orc_lookup.h.
 */
#ifndef ETCH_ORC_ARRAYS_H
#define ETCH_ORC_ARRAYS_H

#include <etch/orc_rule.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Converts a register number of struct etch_orc to the `cfa` byte of a rule; 0xff if there is no such register. */
static inline uint8_t etch_orc_reg_rule(unsigned reg)
{
	static const uint8_t of[16] = {0xff,
	                               0xff,
	                               2,
	                               7,
	                               ETCH_REG_RBP,
	                               ETCH_REG_RSP,
	                               10,
	                               13,
	                               ETCH_REG_RBP | ETCH_CFA_DEREF,
	                               ETCH_REG_RSP | ETCH_CFA_DEREF,
	                               0,
	                               11,
	                               1,
	                               3,
	                               6,
	                               0xff};

	return of[reg & 15];
}

static inline unsigned etch_orc_reg_of(uint8_t cfa)
{
	unsigned i;

	for (i = ETCH_ORC_DX; i < ETCH_ORC_LOST; i++)
		if (etch_orc_reg_rule(i) == cfa)
			return i;
	return ETCH_ORC_UNDEFINED;
}

/* Packs a rule and an enum etch_row_source. Returns 1, or 0 when the rule does not fit: *out is then UNDEFINED. */
static inline int etch_orc_pack(const struct etch_rule *r, unsigned source, struct etch_orc *out)
{
	static const uint8_t bp_of[] = {ETCH_ORC_UNDEFINED, ETCH_ORC_PREV_SP, ETCH_ORC_BP, ETCH_ORC_SP, ETCH_ORC_LOST};
	static const uint8_t type_of[] = {ETCH_ORC_TYPE_UNDEFINED, ETCH_ORC_TYPE_CALL, ETCH_ORC_TYPE_REGS,
	                                  ETCH_ORC_TYPE_END};
	int32_t sp = r->cfa_off;
	unsigned reg;

	out->sp_offset = out->bp_offset = 0;
	out->bits = (uint16_t)((source & 3) << 12);
	if (!etch_rule_valid(r))
		return 0;
	if (r->kind == ETCH_RULE_UNDEF)
		return 1;
	reg = etch_orc_reg_of(r->cfa);
	if (r->cfa & ETCH_CFA_DEREF) {
		if ((sp & 7) || sp < -512 * 8 || sp > 511 * 8 || (r->cfa_add & 7) || r->cfa_add < 0 || r->cfa_add > 63 * 8)
			reg = ETCH_ORC_UNDEFINED;
		else
			sp = sp / 8 * 64 + r->cfa_add / 8;
	}
	/* An END rule may consist of its kind alone. */
	if (r->kind == ETCH_RULE_END && !r->cfa && !sp)
		reg = ETCH_ORC_UNDEFINED;
	else if (reg == ETCH_ORC_UNDEFINED)
		return 0;
	if (sp != (int16_t)sp || r->bp_off != (int16_t)r->bp_off || r->ra)
		return 0;
	out->sp_offset = (int16_t)sp;
	out->bp_offset = (int16_t)r->bp_off;
	out->bits |= (uint16_t)(reg | (unsigned)bp_of[r->bp] << 4 | (unsigned)type_of[r->kind] << 8 |
	                        (r->kind == ETCH_RULE_SIGNAL ? 1u << 11 : 0));
	return 1;
}

/* Unpacks an entry. Returns 1, or 0 with an UNDEF rule when etch_orc_pack() cannot have written the entry. */
static inline int etch_orc_unpack(const struct etch_orc *o, struct etch_rule *out)
{
	static const uint8_t kind_of[] = {ETCH_RULE_UNDEF, ETCH_RULE_END, ETCH_RULE_CALL, ETCH_RULE_SIGNAL};
	unsigned type = o->bits >> 8 & 7, signal = o->bits >> 11 & 1;

	*out = etch_rule_undef;
	if (o->bits >> 14 || type > ETCH_ORC_TYPE_REGS || signal != (type == ETCH_ORC_TYPE_REGS))
		return 0;
	if (type == ETCH_ORC_TYPE_UNDEFINED)
		return !o->sp_offset && !o->bp_offset && !(o->bits & 0xff);
	switch (o->bits >> 4 & 15) {
	case ETCH_ORC_UNDEFINED: out->bp = ETCH_BP_SAME; break;
	case ETCH_ORC_PREV_SP: out->bp = ETCH_BP_CFA; break;
	case ETCH_ORC_BP: out->bp = ETCH_BP_RBP; break;
	case ETCH_ORC_SP: out->bp = ETCH_BP_RSP; break;
	case ETCH_ORC_LOST: out->bp = ETCH_BP_UNDEF; break;
	default: return 0;
	}
	out->kind = kind_of[type];
	out->cfa = etch_orc_reg_rule(o->bits & 15);
	if (type == ETCH_ORC_TYPE_END && !(o->bits & 15) && !o->sp_offset)
		out->cfa = 0;
	out->cfa_off = o->sp_offset;
	out->bp_off = o->bp_offset;
	if (out->cfa != 0xff && (out->cfa & ETCH_CFA_DEREF)) {
		/* Divides by 64 with a floor, as an arithmetic shift right does, without relying on the compiler's >> of
		 * negative numbers. */
		out->cfa_add = (o->sp_offset & 63) * 8;
		out->cfa_off = (o->sp_offset - (o->sp_offset & 63)) / 8;
	}
	if (out->cfa != 0xff && etch_rule_valid(out))
		return 1;
	*out = etch_rule_undef;
	return 0;
}

/*
 * The arrays of an orc table. The pointers say where the arrays are now; text and ip_addr are
 * link-time addresses, so that the same code reads a file's bytes and loaded memory.
 */
struct etch_orc_table {
	const int32_t *ip;
	const struct etch_orc *orc;
	const uint32_t *lookup;
	uint32_t rows;
	uint64_t ip_addr; /* link-time address of ip[0] */
	uint64_t text, text_size;
};

/* Word i of an array that may be unaligned: a damaged header can place it anywhere. */
static inline uint32_t etch_orc_word(const void *array, uint64_t i)
{
	uint32_t word;

	memcpy(&word, (const char *)array + 4 * i, sizeof(word));
	return word;
}

/* The offset of row i from `text`. Above 2^63, the row lies below text. */
static inline uint64_t etch_orc_offset(const struct etch_orc_table *t, uint32_t i)
{
	return t->ip_addr + 4 * (uint64_t)i + (uint64_t)(int64_t)(int32_t)etch_orc_word(t->ip, i) - t->text;
}

/*
 * Checks the three arrays for etch_orc_find(): rows ascend (the last one of several at one address
 * counts), entries are well formed, and lookup[b] is the last row at or below the start of block b,
 * or 0 if there is none. Takes linear time. Returns 1 if the arrays are valid, else 0.
 */
static inline int etch_orc_valid(const struct etch_orc_table *t)
{
	uint64_t blocks = (t->text_size + 255) >> ETCH_BLOCK_SHIFT, b = 0;
	struct etch_rule rule;
	int64_t last = INT64_MIN;
	uint32_t i;

	if ((t->text & 255) || t->text_size > UINT32_MAX || !t->rows)
		return 0;
	for (i = 0; i < t->rows; i++) {
		int64_t at = (int64_t)etch_orc_offset(t, i);

		if (at < last || !etch_orc_unpack(&t->orc[i], &rule))
			return 0;
		for (; b <= blocks && (int64_t)(b << ETCH_BLOCK_SHIFT) < at; b++)
			if (etch_orc_word(t->lookup, b) != (i ? i - 1 : 0))
				return 0;
		last = at;
	}
	for (; b <= blocks; b++)
		if (etch_orc_word(t->lookup, b) != t->rows - 1)
			return 0;
	return 1;
}

/* The last row of [lo, hi] at or below `offset`; lo if there is none. */
static inline uint32_t etch_orc_last(const struct etch_orc_table *t, uint32_t lo, uint32_t hi, uint64_t offset)
{
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo + 1) / 2;

		if ((int64_t)etch_orc_offset(t, mid) <= (int64_t)offset)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

/*
 * The index of the row in force at `offset` bytes from `text`, or -1 if there is none. Reads
 * nothing outside the arrays, whatever they hold.
 */
static inline int64_t etch_orc_find(const struct etch_orc_table *t, uint64_t offset)
{
	uint64_t b = offset >> ETCH_BLOCK_SHIFT;
	uint32_t lo, hi;

	if (offset >= t->text_size)
		return -1;
	lo = etch_orc_word(t->lookup, b);
	hi = etch_orc_word(t->lookup, b + 1);
	if (ETCH_UNLIKELY(lo > hi) || ETCH_UNLIKELY(hi >= t->rows))
		return -1;
	lo = etch_orc_last(t, lo, hi, offset);
	return (int64_t)etch_orc_offset(t, lo) <= (int64_t)offset ? (int64_t)lo : -1;
}

#ifdef __cplusplus
}
#endif
#endif
