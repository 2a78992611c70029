/* SPDX-License-Identifier: MIT */
/*
 * etch/orc_lookup.h: reading the tables of etch/orc.h. The tool and libetch share it.
 *
 * Every function is async-signal-safe and thread-safe: no state, no libc but memcpy,
 * no write outside its arguments, bounded work.
 *
 * What keeps a hostile table harmless: etch_unwind_header_valid() costs the same for
 * every table and promises that all arrays lie inside it; each lookup then compares
 * the numbers that it takes from an array before it uses them. Those branches are
 * never taken in a good table and not part of the chain of loads that a lookup waits
 * for. So nothing has to read a whole table at load time. etch_unwind_valid() does
 * read it all, and says that the table is one that the tool could have written.
 */
#ifndef ETCH_ORC_LOOKUP_H
#define ETCH_ORC_LOOKUP_H

#include <emmintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <etch/orc.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ETCH_ODD(x) __builtin_expect(!!(x), 0)

#define ETCH_POOL_TAIL   32u  /* bytes behind the last record */
#define ETCH_MAP_CODES   224u /* map bytes below: rules; from here to 254: exception units */
#define ETCH_MAP_UNIT    254u /* map byte of a page's first exception unit; in a unit: go on */
#define ETCH_MAP_FULL    255u /* the full table has the answer */
#define ETCH_MAP_CHAIN   8u   /* exception units of one granule, at most */
#define ETCH_UNIT_SIZE   3u   /* uint8_t split, below, above */

/* What a lookup says where there is no row. */
static const struct etch_rule etch_rule_undef = { 0, 0, 0, 0, 0, ETCH_RULE_UNDEF, 0 };

/* ---- rules ----------------------------------------------------------------- */

/* 1 when *r is a rule as etch/orc.h has them, unused fields zero; else 0. */
static inline int etch_rule_valid(const struct etch_rule *r)
{
	int used = r->cfa || r->cfa_off || r->cfa_add || r->bp || r->bp_off;

	if (r->kind > ETCH_RULE_END)
		return 0;
	if (r->kind == ETCH_RULE_UNDEF)
		return !used && !r->ra;
	if (r->kind == ETCH_RULE_SIGNAL)
		return r->cfa == (ETCH_REG_RSP | ETCH_CFA_DEREF) && !r->cfa_add && !r->bp && !r->bp_off && !r->ra;
	if ((r->cfa & ~(ETCH_CFA_INDEX | ETCH_CFA_DEREF | 15u)) || (!(r->cfa & ETCH_CFA_DEREF) && r->cfa_add))
		return 0;
	if ((r->cfa & ETCH_CFA_INDEX) && (!(r->cfa & ETCH_CFA_DEREF) || (r->cfa & 15u) == ETCH_REG_RSP))
		return 0;
	if (r->bp > ETCH_BP_UNDEF || ((r->bp == ETCH_BP_SAME || r->bp == ETCH_BP_UNDEF) && r->bp_off))
		return 0;
	if (r->kind == ETCH_RULE_END)
		return !r->ra;
	return r->ra == ETCH_RA_CFA || (r->ra & ~15u) == ETCH_RA_REG;
}

static inline int etch_rule_equal(const struct etch_rule *a, const struct etch_rule *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* The version of a table with these rules. */
static inline uint16_t etch_rules_version(const struct etch_rule *rules, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		if (rules[i].cfa & ETCH_CFA_INDEX)
			return ETCH_UNWIND_VERSION_INDEX;
	return ETCH_UNWIND_VERSION;
}

/* ---- headers ---------------------------------------------------------------- */

static inline int etch_unwind_inside(const struct etch_unwind *u, uint32_t at, uint64_t count, uint32_t each,
                                     uint32_t align)
{
	return !(at & (align - 1)) && at >= sizeof(*u) && at <= u->bytes && count <= (u->bytes - at) / each;
}

/* Bytes of the map, and granules of a page of the map (as a shift). */
static inline uint64_t etch_map_bytes(const struct etch_unwind *u)
{
	return (u->text_size >> u->map_shift) + 1;
}

static inline unsigned etch_map_page_shift(unsigned map_shift)
{
	return map_shift == 6 ? 6 : 4;
}

/*
 * Is a table of at most `size` bytes at `table` (8-byte aligned, readable) one that
 * lookups may be made in? Constant time; what the arrays hold is not looked at. With
 * ETCH_ENCODING_ORC the arrays lie elsewhere: see etch_orc_open().
 * 1 yes, 0 no.
 */
static inline int etch_unwind_header_valid(const void *table, uint64_t size)
{
	const struct etch_unwind *u = (const struct etch_unwind *)table;
	uint64_t blocks;

	if (size < sizeof(*u) || u->magic != ETCH_UNWIND_MAGIC || u->version < ETCH_UNWIND_VERSION ||
	    u->version > ETCH_UNWIND_VERSION_INDEX || u->size != sizeof(*u) || u->bytes < sizeof(*u) || u->bytes > size || u->bytes > UINT32_MAX || u->zero ||
	    u->zero2)
		return 0;
	if ((u->text & 255) || u->text_size > UINT32_MAX || u->text + u->text_size < u->text)
		return 0;
	if (u->encoding == ETCH_ENCODING_ORC)
		return u->version == ETCH_UNWIND_VERSION && !u->map_shift && !u->hd && !u->base && !u->pool && !u->pool_size && !u->palette &&
		       !u->palette_count && !u->escape && !u->escape_count && !u->run && !u->run_count && !u->map &&
		       !u->map_page && !u->map_page_count && !u->map_unit && !u->map_unit_count && !u->map_palette &&
		       !u->map_palette_count && !u->map_rbp && !(u->orc_ip & 3) && !(u->orc & 1) && !(u->orc_lookup & 3);
	if (u->encoding != ETCH_ENCODING_BLOCK || u->orc_ip || u->orc || u->orc_lookup)
		return 0;

	blocks = (u->text_size + 255) >> ETCH_BLOCK_SHIFT;
	if (!etch_unwind_inside(u, u->hd, blocks + 1, 2, 2) ||
	    !etch_unwind_inside(u, u->base, (blocks >> ETCH_GROUP_SHIFT) + 1, 4, 4) ||
	    !etch_unwind_inside(u, u->pool, u->pool_size, 1, 1) || u->pool_size < ETCH_POOL_TAIL + 1 ||
	    !etch_unwind_inside(u, u->palette, u->palette_count, sizeof(struct etch_rule), 4) || !u->palette_count ||
	    !etch_unwind_inside(u, u->escape, u->escape_count, sizeof(struct etch_escape), 4) ||
	    (u->run_count && !etch_unwind_inside(u, u->run, u->run_count, sizeof(struct etch_run), 1)) ||
	    u->run_count >= ETCH_IDX_ESCAPE)
		return 0;

	if (!u->map_shift)
		return !u->map && !u->map_page && !u->map_page_count && !u->map_unit && !u->map_unit_count &&
		       !u->map_palette && !u->map_palette_count && !u->map_rbp;
	if (u->map_shift != 6 && u->map_shift != 7)
		return 0;
	return etch_unwind_inside(u, u->map, etch_map_bytes(u), 1, 1) &&
	       etch_unwind_inside(u, u->map_page, u->map_page_count, 4, 4) &&
	       u->map_page_count == ((etch_map_bytes(u) - 1) >> etch_map_page_shift(u->map_shift)) + 1 &&
	       etch_unwind_inside(u, u->map_unit, u->map_unit_count, ETCH_UNIT_SIZE, 1) &&
	       etch_unwind_inside(u, u->map_palette, u->map_palette_count, sizeof(struct etch_map_rule), 4) &&
	       u->map_palette_count <= ETCH_MAP_CODES && u->map_rbp <= u->map_palette_count;
}

/* ---- block ------------------------------------------------------------------- */

/* A block table, its arrays as pointers. */
struct etch_block {
	const uint16_t *hd;
	const uint32_t *base;
	const uint8_t *pool;
	const struct etch_rule *palette;
	const struct etch_escape *escape;
	const struct etch_run *run;
	const uint8_t *map; /* null: no map */
	const uint32_t *map_page;
	const uint8_t *map_unit;
	const struct etch_map_rule *map_palette;
	uint64_t text_size;
	uint32_t pool_end;  /* offset of the byte behind the last record */
	uint32_t direct;    /* idx bytes below are palette indices */
	uint32_t first_run; /* idx bytes from here to 254 are runs */
	uint32_t palette_count, escape_count;
	uint32_t map_unit_count, map_palette_count;
	uint32_t map_rbp;   /* map codes from here to map_palette_count count from rbp, those below from rsp */
	uint8_t map_shift, map_page_shift;
};

/* Of a table with ETCH_ENCODING_BLOCK that etch_unwind_header_valid() accepts. */
static inline void etch_block_open(const struct etch_unwind *u, struct etch_block *t)
{
	const uint8_t *p = (const uint8_t *)u;

	t->hd = (const uint16_t *)(const void *)(p + u->hd);
	t->base = (const uint32_t *)(const void *)(p + u->base);
	t->pool = p + u->pool;
	t->palette = (const struct etch_rule *)(const void *)(p + u->palette);
	t->escape = (const struct etch_escape *)(const void *)(p + u->escape);
	t->map = u->map_shift ? p + u->map : NULL;
	t->map_page = (const uint32_t *)(const void *)(p + u->map_page);
	t->map_unit = p + u->map_unit;
	t->map_palette = (const struct etch_map_rule *)(const void *)(p + u->map_palette);
	t->text_size = u->text_size;
	t->pool_end = u->pool_size - ETCH_POOL_TAIL;
	t->palette_count = u->palette_count;
	t->run = (const struct etch_run *)(const void *)(p + u->run);
	t->first_run = ETCH_IDX_ESCAPE - u->run_count;
	t->direct = u->palette_count < t->first_run ? u->palette_count : t->first_run;
	t->escape_count = u->escape_count;
	t->map_unit_count = u->map_unit_count;
	t->map_palette_count = u->map_palette_count;
	t->map_rbp = u->map_rbp;
	t->map_shift = u->map_shift;
	t->map_page_shift = (uint8_t)etch_map_page_shift(u->map_shift);
}

/*
 * The rule of the idx byte at offset `at` of the pool, `after` bytes behind the start of
 * its row. 255 is behind every row of a run: what the next block inherits.
 */
static inline const struct etch_rule *etch_block_rule(const struct etch_block *t, uint32_t at, uint32_t after)
{
	uint32_t idx = t->pool[at], lo = 0, hi = t->escape_count, k = 1;

	if (idx < t->direct)
		return &t->palette[idx];
	if (idx != ETCH_IDX_ESCAPE && idx >= t->first_run) {
		const struct etch_run *r = &t->run[idx - t->first_run];

		while (k < ETCH_RUN_ROWS && r->off[k] <= after && r->off[k] != 255)
			k++;
		return r->idx[k - 1] < t->direct ? &t->palette[r->idx[k - 1]] : &etch_rule_undef;
	}
	if (idx != ETCH_IDX_ESCAPE)
		return &etch_rule_undef;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (t->escape[mid].at < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == t->escape_count || t->escape[lo].at != at || t->escape[lo].rule >= t->palette_count)
		return &etch_rule_undef;
	return &t->palette[t->escape[lo].rule];
}

/* Offset in the pool of the record of block b; b up to and with the number of blocks. */
static inline uint32_t etch_block_record(const struct etch_block *t, uint64_t b)
{
	return t->base[b >> ETCH_GROUP_SHIFT] + t->hd[b];
}

/* What is left of etch_block_find_in() for an offset in text whose block has the record
 * of c entries at offset s of the pool: all there is, slowly. */
static __attribute__((noinline, cold, unused)) const struct etch_rule *
etch_block_find_rest(const struct etch_block *t, uint64_t offset, uint32_t s, uint32_t c)
{
	uint32_t k = 0, in = (uint8_t)offset;

	while (k < c && t->pool[s + k] <= in)
		k++;
	return k ? etch_block_rule(t, s + c + k - 1, in - t->pool[s + k - 1]) : etch_block_rule(t, s - 1, 255);
}

/*
 * The rule in force at a byte of text, given by its offset from etch_unwind.text.
 * Never null: outside of text, and where a table contradicts itself, it is a rule of
 * kind UNDEF. For a return address look up the byte before it.
 */
static inline __attribute__((always_inline)) const struct etch_rule *
etch_block_find_in(const struct etch_block *t, uint64_t offset)
{
	uint64_t b = offset >> ETCH_BLOCK_SHIFT;
	uint32_t s, e, c, k, at, idx;
	__m128i a, v;

	if (ETCH_ODD(offset >= t->text_size))
		return &etch_rule_undef;
	s = etch_block_record(t, b);
	e = etch_block_record(t, b + 1);
	if (ETCH_ODD(s - 1 >= e) || ETCH_ODD(e > t->pool_end)) /* the first: s == 0 too */
		return &etch_rule_undef;
	c = (e - s) / 2;
	/* Bytes of off[] at or below the offset; they ascend. What is read behind them, up
	 * to the pool's tail, is cut off by c. */
	a = _mm_set1_epi8((char)offset);
	v = _mm_loadu_si128((const __m128i *)(const void *)(t->pool + s));
	v = _mm_cmpeq_epi8(_mm_min_epu8(v, a), v);
	k = (uint32_t)__builtin_ctz(~(uint32_t)_mm_movemask_epi8(v));
	/*
	 * Branches, not conditional moves: where they are predicted the processor does not
	 * wait for the comparison, and where not they cost no more (8 against 14-20 ns with
	 * 48 addresses, 17 against 28 with 65,536 random ones in libc).
	 */
	if (ETCH_ODD(k > c)) {
		k = c;
		__asm__("");
	}
	/* k == 0: what the block inherits is the idx byte before its record. */
	at = s - 1;
	if (!ETCH_ODD(k == 0))
		at += c + k;
	idx = t->pool[at];
	if (ETCH_ODD(k == 16) || ETCH_ODD(idx >= t->direct))
		return etch_block_find_rest(t, offset, s, c);
	return &t->palette[idx];
}

static inline const struct etch_rule *etch_block_find(const struct etch_unwind *u, uint64_t offset)
{
	struct etch_block t;

	etch_block_open(u, &t);
	return etch_block_find_in(&t, offset);
}

/* The same without SSE2: for reading, and to test the other against. */
static inline const struct etch_rule *etch_block_find_scalar(const struct etch_unwind *u, uint64_t offset)
{
	struct etch_block t;
	uint32_t s, e;

	etch_block_open(u, &t);
	if (offset >= t.text_size)
		return &etch_rule_undef;
	s = etch_block_record(&t, offset >> ETCH_BLOCK_SHIFT);
	e = etch_block_record(&t, (offset >> ETCH_BLOCK_SHIFT) + 1);
	if (!s || s > e || e > t.pool_end)
		return &etch_rule_undef;
	return etch_block_find_rest(&t, offset, s, (e - s) / 2);
}

/* ---- the return-address map ---------------------------------------------------- */

/*
 * The rest of etch_map_find_in() for a map byte `code` of ETCH_MAP_CODES or more, or
 * one that is no rule. Null: use the full table.
 */
static inline const struct etch_map_rule *etch_map_exception(const struct etch_block *t, uint64_t offset, uint32_t code)
{
	uint8_t in = (uint8_t)(offset & ((1u << t->map_shift) - 1));
	uint32_t unit, i;

	if (code == ETCH_MAP_FULL || code < ETCH_MAP_CODES)
		return NULL;
	unit = t->map_page[offset >> t->map_shift >> t->map_page_shift] + (ETCH_MAP_UNIT - code);
	for (i = 0; i < ETCH_MAP_CHAIN && unit < t->map_unit_count; i++, unit++) {
		const uint8_t *p = t->map_unit + (size_t)unit * ETCH_UNIT_SIZE;

		code = in < p[0] ? p[1] : p[2];
		if (in < p[0] || code != ETCH_MAP_UNIT)
			return code < t->map_palette_count ? &t->map_palette[code] : NULL;
	}
	return NULL;
}

/*
 * The rule of a return address, given by its own offset from etch_unwind.text (1 to
 * text_size), in a table with a map. It must be an address that a call pushed: the map
 * knows no other. Null: look at etch_block_find_in(t, offset - 1).
 */
static inline const struct etch_map_rule *etch_map_find_in(const struct etch_block *t, uint64_t offset)
{
	uint32_t code;

	if (ETCH_ODD(offset > t->text_size))
		return NULL;
	code = t->map[offset >> t->map_shift];
	if (!ETCH_ODD(code >= t->map_palette_count))
		return &t->map_palette[code];
	return etch_map_exception(t, offset, code);
}

/* The same; null also where the table has no map. */
static inline const struct etch_map_rule *etch_map_find(const struct etch_unwind *u, uint64_t offset)
{
	struct etch_block t;

	if (!u->map_shift)
		return NULL;
	etch_block_open(u, &t);
	return etch_map_find_in(&t, offset);
}

/* A rule as the map has it; 0 where it cannot. */
static inline int etch_map_rule_pack(const struct etch_rule *r, struct etch_map_rule *out)
{
	if (r->kind != ETCH_RULE_CALL || (r->cfa != ETCH_REG_RSP && r->cfa != ETCH_REG_RBP) || r->ra != ETCH_RA_CFA)
		return 0;
	if (r->bp != ETCH_BP_SAME && (r->bp != ETCH_BP_CFA || !r->bp_off || r->bp_off != (int16_t)r->bp_off))
		return 0;
	out->cfa = r->cfa_off;
	out->bp = r->bp == ETCH_BP_CFA ? (int16_t)r->bp_off : (int16_t)0;
	out->flags = r->cfa == ETCH_REG_RBP ? ETCH_MAP_RBP : 0;
	out->zero = 0;
	return 1;
}

/* And back. */
static inline void etch_map_rule_unpack(const struct etch_map_rule *m, struct etch_rule *out)
{
	memset(out, 0, sizeof(*out));
	out->cfa_off = m->cfa;
	out->bp_off = m->bp;
	out->cfa = m->flags & ETCH_MAP_RBP ? ETCH_REG_RBP : ETCH_REG_RSP;
	out->bp = m->bp ? ETCH_BP_CFA : ETCH_BP_SAME;
	out->kind = ETCH_RULE_CALL;
}

/* ---- orc ------------------------------------------------------------------------ */

/* Register of struct etch_orc to register of a rule and back; 0xff: none. */
static inline uint8_t etch_orc_reg_rule(unsigned reg)
{
	static const uint8_t of[16] = { 0xff, 0xff, 2, 7, ETCH_REG_RBP, ETCH_REG_RSP, 10, 13,
	                                ETCH_REG_RBP | ETCH_CFA_DEREF, ETCH_REG_RSP | ETCH_CFA_DEREF, 0, 11, 1, 3, 6, 0xff };

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

/* A rule and an enum etch_row_source as an entry. 0 when it does not fit: *out then
 * says UNDEFINED. */
static inline int etch_orc_pack(const struct etch_rule *r, unsigned source, struct etch_orc *out)
{
	static const uint8_t bp_of[] = { ETCH_ORC_UNDEFINED, ETCH_ORC_PREV_SP, ETCH_ORC_BP, ETCH_ORC_SP, ETCH_ORC_LOST };
	static const uint8_t type_of[] = { ETCH_ORC_TYPE_UNDEFINED, ETCH_ORC_TYPE_CALL, ETCH_ORC_TYPE_REGS,
	                                   ETCH_ORC_TYPE_END };
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
	/* An END rule may have nothing but its kind. */
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

/* An entry as a rule; 0, and an UNDEF rule, when it is none that etch_orc_pack() makes. */
static inline int etch_orc_unpack(const struct etch_orc *o, struct etch_rule *out)
{
	static const uint8_t kind_of[] = { ETCH_RULE_UNDEF, ETCH_RULE_END, ETCH_RULE_CALL, ETCH_RULE_SIGNAL };
	unsigned type = o->bits >> 8 & 7, signal = o->bits >> 11 & 1;

	*out = etch_rule_undef;
	if (o->bits >> 14 || type > ETCH_ORC_TYPE_REGS || signal != (type == ETCH_ORC_TYPE_REGS))
		return 0;
	if (type == ETCH_ORC_TYPE_UNDEFINED)
		return !o->sp_offset && !o->bp_offset && !(o->bits & 0xff);
	switch (o->bits >> 4 & 15) {
	case ETCH_ORC_UNDEFINED:
		out->bp = ETCH_BP_SAME;
		break;
	case ETCH_ORC_PREV_SP:
		out->bp = ETCH_BP_CFA;
		break;
	case ETCH_ORC_BP:
		out->bp = ETCH_BP_RBP;
		break;
	case ETCH_ORC_SP:
		out->bp = ETCH_BP_RSP;
		break;
	case ETCH_ORC_LOST:
		out->bp = ETCH_BP_UNDEF;
		break;
	default:
		return 0;
	}
	out->kind = kind_of[type];
	out->cfa = etch_orc_reg_rule(o->bits & 15);
	if (type == ETCH_ORC_TYPE_END && !(o->bits & 15) && !o->sp_offset)
		out->cfa = 0;
	out->cfa_off = o->sp_offset;
	out->bp_off = o->bp_offset;
	if (out->cfa != 0xff && (out->cfa & ETCH_CFA_DEREF)) {
		/* Arithmetic shift without relying on it. */
		out->cfa_add = (o->sp_offset & 63) * 8;
		out->cfa_off = (o->sp_offset - (o->sp_offset & 63)) / 8;
	}
	if (out->cfa != 0xff && etch_rule_valid(out))
		return 1;
	*out = etch_rule_undef;
	return 0;
}

/*
 * The arrays of an orc table. Pointers to where they are now; addresses, text and ip_addr,
 * are link-time ones, so that the same code reads them in a file and in memory.
 */
struct etch_orc_table {
	const int32_t *ip;
	const struct etch_orc *orc;
	const uint32_t *lookup;
	uint32_t rows;
	uint64_t ip_addr; /* of ip[0] */
	uint64_t text, text_size;
};

/* Word i of an array, which a damaged header may put anywhere. */
static inline uint32_t etch_orc_word(const void *array, uint64_t i)
{
	uint32_t word;

	memcpy(&word, (const char *)array + 4 * i, sizeof(word));
	return word;
}

/* Offset from `text` of row i; a number beyond 2^63 is one below text. */
static inline uint64_t etch_orc_offset(const struct etch_orc_table *t, uint32_t i)
{
	return t->ip_addr + 4 * (uint64_t)i + (uint64_t)(int64_t)(int32_t)etch_orc_word(t->ip, i) - t->text;
}

/*
 * The three arrays are what etch_orc_find() may use: rows ascend (of several at one
 * address the last one counts), entries are lawful, and lookup[b] is the last row at or
 * below the start of block b, or 0 where there is none. Linear time. 1 yes, 0 no.
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

/*
 * The row in force at a byte of text, given by its offset from `text`: its number in
 * the arrays, or -1 where there is none. Reads nothing outside the arrays whatever
 * they hold.
 */
static inline int64_t etch_orc_find(const struct etch_orc_table *t, uint64_t offset)
{
	uint64_t b = offset >> ETCH_BLOCK_SHIFT;
	uint32_t lo, hi;

	if (offset >= t->text_size)
		return -1;
	lo = etch_orc_word(t->lookup, b);
	hi = etch_orc_word(t->lookup, b + 1);
	if (ETCH_ODD(lo > hi) || ETCH_ODD(hi >= t->rows))
		return -1;
	/* The last row of [lo, hi] at or below offset. */
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo + 1) / 2;

		if ((int64_t)etch_orc_offset(t, mid) <= (int64_t)offset)
			lo = mid;
		else
			hi = mid - 1;
	}
	return (int64_t)etch_orc_offset(t, lo) <= (int64_t)offset ? (int64_t)lo : -1;
}

/* ---- complete validation ---------------------------------------------------------- */

/* Rows of a run, 2 to ETCH_RUN_ROWS; 0: malformed. */
static inline uint32_t etch_run_rows(const struct etch_block *t, uint32_t run)
{
	const struct etch_run *r = &t->run[run];
	uint32_t n, i;

	for (n = 0; n < ETCH_RUN_ROWS && r->off[n] != 255; n++)
		if ((n ? r->off[n] <= r->off[n - 1] : r->off[n]) || r->idx[n] >= t->direct)
			return 0;
	for (i = n; i < ETCH_RUN_ROWS; i++)
		if (r->off[i] != 255 || r->idx[i] != 255)
			return 0;
	return n < 2 ? 0 : n;
}

/* Entry i of c of the record at `at`: its rows, 0 when it is malformed. `left`: bytes of
 * text from the block's start on. */
static inline uint32_t etch_entry_rows(const struct etch_block *t, uint32_t at, uint32_t i, uint32_t c, uint64_t left,
                                       uint32_t *escape)
{
	uint32_t off = t->pool[at + i], idx = t->pool[at + c + i], n = 1;

	if (idx == ETCH_IDX_ESCAPE) {
		if (*escape == t->escape_count || t->escape[*escape].at != at + c + i ||
		    t->escape[*escape].rule >= t->palette_count)
			return 0;
		++*escape;
	} else if (idx >= t->first_run) {
		n = etch_run_rows(t, idx - t->first_run);
		if (!n)
			return 0;
		off += t->run[idx - t->first_run].off[n - 1];
	} else if (idx >= t->direct) {
		return 0;
	}
	/* All of it before the next entry, inside the block and the text. */
	if (off > 255 || off >= left || (i + 1 < c && off >= t->pool[at + i + 1]))
		return 0;
	return n;
}

static inline int etch_block_valid(const struct etch_unwind *u, const struct etch_block *t)
{
	uint64_t blocks = (u->text_size + 255) >> ETCH_BLOCK_SHIFT, rows = 1, b;
	uint32_t i, at = 1, escape = 0;

	for (i = 0; i < t->palette_count; i++)
		if (!etch_rule_valid(&t->palette[i]))
			return 0;
	if (u->version != etch_rules_version(t->palette, t->palette_count))
		return 0;
	for (i = 0; i < u->run_count; i++)
		if (!etch_run_rows(t, i))
			return 0;
	/* The byte before the first record is no run. Records lie one behind the other and
	 * fill the pool. */
	if (t->pool[0] >= t->direct) {
		if (t->pool[0] != ETCH_IDX_ESCAPE || !t->escape_count || t->escape[0].at || t->escape[0].rule >= t->palette_count)
			return 0;
		escape = 1;
	}
	if (etch_block_record(t, 0) != at || (blocks && etch_block_record(t, 1) > at && !t->pool[at]))
		return 0; /* the row at `text` is that byte */
	for (b = 0; b < blocks; b++) {
		uint32_t next = etch_block_record(t, b + 1), c = (next - at) / 2;

		if (next < at || next > t->pool_end || ((next - at) & 1))
			return 0;
		for (i = 0; i < c; i++) {
			uint32_t n = etch_entry_rows(t, at, i, c, u->text_size - (b << ETCH_BLOCK_SHIFT), &escape);

			if (!n)
				return 0;
			rows += n;
		}
		at = next;
	}
	return at == t->pool_end && escape == t->escape_count && rows == u->rows;
}

static inline int etch_map_valid(const struct etch_unwind *u, const struct etch_block *t)
{
	uint64_t granules = etch_map_bytes(u), g;
	uint32_t i;

	for (i = 0; i < t->map_palette_count; i++)
		if (t->map_palette[i].flags != (i < t->map_rbp ? 0 : ETCH_MAP_RBP) || t->map_palette[i].zero)
			return 0;
	for (i = 0; i < u->map_page_count; i++)
		if (t->map_page[i] > t->map_unit_count || (i ? t->map_page[i] < t->map_page[i - 1] : t->map_page[i]))
			return 0;
	for (g = 0; g < granules; g++) {
		uint64_t page = g >> t->map_page_shift;
		uint32_t code = t->map[g], unit, n = 0, split = 0;
		uint32_t end = page + 1 < u->map_page_count ? t->map_page[page + 1] : t->map_unit_count;

		if (code == ETCH_MAP_FULL || code < t->map_palette_count)
			continue;
		if (code < ETCH_MAP_CODES)
			return 0;
		for (unit = t->map_page[page] + (ETCH_MAP_UNIT - code);; unit++) {
			const uint8_t *p = t->map_unit + (size_t)unit * ETCH_UNIT_SIZE;

			if (unit >= end || ++n > ETCH_MAP_CHAIN || p[0] <= split || p[0] >> t->map_shift ||
			    (p[1] >= t->map_palette_count && p[1] != ETCH_MAP_FULL))
				return 0;
			split = p[0];
			if (p[2] != ETCH_MAP_UNIT) {
				if (p[2] >= t->map_palette_count && p[2] != ETCH_MAP_FULL)
					return 0;
				break;
			}
		}
	}
	return 1;
}

/*
 * All of a block table, or the header of an orc table (its arrays: etch_orc_valid()).
 * Linear time. 1: a table as the tool writes them. 0: malformed.
 */
static inline int etch_unwind_valid(const void *table, uint64_t size)
{
	const struct etch_unwind *u = (const struct etch_unwind *)table;
	struct etch_block t;

	if (!etch_unwind_header_valid(table, size))
		return 0;
	if (u->encoding != ETCH_ENCODING_BLOCK)
		return 1;
	etch_block_open(u, &t);
	return etch_block_valid(u, &t) && (!u->map_shift || etch_map_valid(u, &t));
}

#ifdef __cplusplus
}
#endif
#endif
