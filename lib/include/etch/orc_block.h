/* SPDX-License-Identifier: MIT */
/*
 * etch/orc_block.h: the block encoding of etch/orc.h and its map of return addresses.
 * Signal safety, thread safety and hostile tables: as in etch/orc_lookup.h.
 */
#ifndef ETCH_ORC_BLOCK_H
#define ETCH_ORC_BLOCK_H

#include <emmintrin.h>

#include <etch/orc_rule.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ETCH_POOL_TAIL     32u  /* readable bytes after the last record */
#define ETCH_MAP_STEPS     192u /* version 4: map bytes below this are steps; from here on: the palette's rules */
#define ETCH_MAP_RBP_FRAME 159u /* the step of a frame with a frame pointer: CFA = rbp + 16, rbp saved at CFA - 16 */
#define ETCH_MAP_CODES     224u /* map bytes below this are rules; from here to 254: exception units */
#define ETCH_MAP_UNIT      254u /* in the map: the page's first exception unit; in a unit: the next unit */
#define ETCH_MAP_FULL      255u /* look up the full table */
#define ETCH_MAP_CHAIN     8u   /* maximum number of exception units of one granule */
#define ETCH_UNIT_SIZE     3u   /* three uint8_t: split, below, above */

/* ---- headers ---------------------------------------------------------------- */

static inline int etch_unwind_inside(const struct etch_unwind *u, uint32_t at, uint64_t count, uint32_t each,
                                     uint32_t align)
{
	return !(at & (align - 1)) && at >= sizeof(*u) && at <= u->bytes && count <= (u->bytes - at) / each;
}

/* The size of the map in bytes, and the log2 of the number of granules per page of the map. */
static inline uint64_t etch_map_bytes(const struct etch_unwind *u) { return (u->text_size >> u->map_shift) + 1; }

static inline unsigned etch_map_page_shift(unsigned map_shift) { return map_shift == 6 ? 6 : 4; }

/* Do the arrays of blocks lie inside the table? */
static inline int etch_block_arrays_valid(const struct etch_unwind *u)
{
	uint64_t blocks = (u->text_size + 255) >> ETCH_BLOCK_SHIFT;

	return etch_unwind_inside(u, u->hd, blocks + 1, 2, 2) &&
	       etch_unwind_inside(u, u->base, (blocks >> ETCH_GROUP_SHIFT) + 1, 4, 4) &&
	       etch_unwind_inside(u, u->pool, u->pool_size, 1, 1) && u->pool_size >= ETCH_POOL_TAIL + 1 &&
	       etch_unwind_inside(u, u->palette, u->palette_count, sizeof(struct etch_rule), 4) && u->palette_count &&
	       etch_unwind_inside(u, u->escape, u->escape_count, sizeof(struct etch_escape), 4) &&
	       (!u->run_count || etch_unwind_inside(u, u->run, u->run_count, sizeof(struct etch_run), 1)) &&
	       u->run_count < ETCH_IDX_ESCAPE && !u->orc_ip && !u->orc && !u->orc_lookup;
}

static inline int etch_block_has_no_map(const struct etch_unwind *u)
{
	return !u->map_shift && !u->map && !u->map_page && !u->map_page_count && !u->map_unit && !u->map_unit_count &&
	       !u->map_palette && !u->map_palette_count && !u->map_first;
}

/* Do the arrays of the return-address map lie inside the table? map_shift must not be 0. */
static inline int etch_map_arrays_valid(const struct etch_unwind *u)
{
	if (u->map_shift != 6 && u->map_shift != 7)
		return 0;
	if (u->version >= ETCH_UNWIND_VERSION_STEPS
	        ? u->map_first != ETCH_MAP_STEPS || u->map_palette_count > ETCH_MAP_CODES - ETCH_MAP_STEPS
	        : u->map_first > u->map_palette_count)
		return 0;
	return etch_unwind_inside(u, u->map, etch_map_bytes(u), 1, 1) &&
	       etch_unwind_inside(u, u->map_page, u->map_page_count, 4, 4) &&
	       u->map_page_count == ((etch_map_bytes(u) - 1) >> etch_map_page_shift(u->map_shift)) + 1 &&
	       etch_unwind_inside(u, u->map_unit, u->map_unit_count, ETCH_UNIT_SIZE, 1) &&
	       etch_unwind_inside(u, u->map_palette, u->map_palette_count, sizeof(struct etch_map_rule), 4) &&
	       u->map_palette_count <= ETCH_MAP_CODES;
}

/* Are the fields of a table of ETCH_ENCODING_ORC valid? Those of blocks and maps are 0. */
static inline int etch_orc_fields_valid(const struct etch_unwind *u)
{
	return u->version == ETCH_UNWIND_VERSION && !u->hd && !u->base && !u->pool && !u->pool_size && !u->palette &&
	       !u->palette_count && !u->escape && !u->escape_count && !u->run && !u->run_count &&
	       etch_block_has_no_map(u) && !(u->orc_ip & 3) && !(u->orc & 1) && !(u->orc_lookup & 3);
}

/*
 * Can lookups be made in the table of at most `size` bytes at `table` (8-byte aligned, readable)?
 * Takes constant time; the contents of the arrays are not examined. With ETCH_ENCODING_ORC the
 * arrays lie elsewhere: see etch_orc_valid(). Returns 1 or 0.
 */
static inline int etch_unwind_header_valid(const void *table, uint64_t size)
{
	const struct etch_unwind *u = (const struct etch_unwind *)table;

	if (size < sizeof(*u) || u->magic != ETCH_UNWIND_MAGIC || u->version < ETCH_UNWIND_VERSION ||
	    u->version > ETCH_UNWIND_VERSION_LAST || u->size != sizeof(*u) || u->bytes < sizeof(*u) || u->bytes > size ||
	    u->bytes > UINT32_MAX || u->zero2 || u->map_rbp > (u->version >= ETCH_UNWIND_VERSION_STEPS))
		return 0;
	if ((u->text & 255) || u->text_size > UINT32_MAX || u->text + u->text_size < u->text)
		return 0;
	if (u->encoding == ETCH_ENCODING_ORC)
		return etch_orc_fields_valid(u);
	if (u->encoding != ETCH_ENCODING_BLOCK || !etch_block_arrays_valid(u))
		return 0;
	if (!u->map_shift)
		return u->version < ETCH_UNWIND_VERSION_STEPS && etch_block_has_no_map(u);
	return etch_map_arrays_valid(u);
}

/* ---- block ------------------------------------------------------------------- */

/* A block table with its arrays as pointers; the fields that most lookups need come first. */
struct etch_block {
	const uint16_t *hd;
	const uint32_t *base;
	const uint8_t *pool;
	const struct etch_rule *palette;
	uint64_t text_size;
	uint32_t pool_end; /* offset of the byte after the last record */
	uint32_t direct;   /* idx bytes below this are palette indices */
	const struct etch_map_rule *map_palette;
	uint32_t map_steps; /* map bytes below this are steps: ETCH_MAP_STEPS, or 0 before version 4 */
	uint32_t map_codes; /* map bytes from map_steps to here are the palette's rules, in order */
	uint8_t map_shift, map_page_shift, map_rbp;
	uint32_t map_unit_count;
	const uint8_t *map; /* null: the table has no map */
	const uint32_t *map_page;
	const uint8_t *map_unit;
	const struct etch_escape *escape;
	const struct etch_run *run;
	uint32_t first_run; /* idx bytes from here to 254 are runs */
	uint32_t palette_count, escape_count;
};

/* Fills *t from a table of ETCH_ENCODING_BLOCK that etch_unwind_header_valid() accepts. */
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
	t->map_steps = u->version >= ETCH_UNWIND_VERSION_STEPS ? ETCH_MAP_STEPS : 0;
	t->map_codes = t->map_steps + u->map_palette_count;
	t->map_shift = u->map_shift;
	t->map_rbp = (uint8_t)u->map_rbp;
	t->map_page_shift = (uint8_t)etch_map_page_shift(u->map_shift);
}

/*
 * The rule of the idx byte at offset `at` of the pool, `after` bytes after the start of its row. If
 * after is 255, it is the rule after every row of a run, which the next block inherits.
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

/* The offset in the pool of the record of block b. If b is the number of blocks, it is the pool's end. */
static inline uint32_t etch_block_record(const struct etch_block *t, uint64_t b)
{
	return t->base[b >> ETCH_GROUP_SHIFT] + t->hd[b];
}

/* The slow path of etch_block_find_in(): scans all c entries of the record at offset s of the pool, which is the
 * record of the block in which `offset` lies. */
static __attribute__((noinline, cold, unused)) const struct etch_rule *
etch_block_find_rest(const struct etch_block *t, uint64_t offset, uint32_t s, uint32_t c)
{
	uint32_t k = 0, in = (uint8_t)offset;

	while (k < c && t->pool[s + k] <= in)
		k++;
	return k ? etch_block_rule(t, s + c + k - 1, in - t->pool[s + k - 1]) : etch_block_rule(t, s - 1, 255);
}

/*
 * The rule in force at `offset` bytes from etch_unwind.text. Never null: outside of text, and where
 * a table contradicts itself, it is a rule of kind UNDEF. For a return address look up the byte
 * before it.
 */
static inline __attribute__((always_inline)) const struct etch_rule *etch_block_find_in(const struct etch_block *t,
                                                                                        uint64_t offset)
{
	uint64_t b = offset >> ETCH_BLOCK_SHIFT;
	uint32_t s, e, c, k, at, idx;
	__m128i a, v;

	if (ETCH_UNLIKELY(offset >= t->text_size))
		return &etch_rule_undef;
	s = etch_block_record(t, b);
	e = etch_block_record(t, b + 1);
	if (ETCH_UNLIKELY(s - 1 >= e) || ETCH_UNLIKELY(e > t->pool_end)) /* s - 1 catches the first entry too, because s
	                                                                  * may be 0 */
		return &etch_rule_undef;
	c = (e - s) / 2;
	/* Counts the bytes of off[] at or below the offset; they ascend. The limit c cuts off the bytes that are read
	 * after them, up to the pool's tail. */
	a = _mm_set1_epi8((char)offset);
	v = _mm_loadu_si128((const __m128i *)(const void *)(t->pool + s));
	v = _mm_cmpeq_epi8(_mm_min_epu8(v, a), v);
	k = (uint32_t)__builtin_ctz(~(uint32_t)_mm_movemask_epi8(v));
	/*
	 * These are branches, not conditional moves: when a branch is predicted, the processor does not
	 * wait for the comparison, and a misprediction costs no more than the wait.
	 */
	if (ETCH_UNLIKELY(k > c)) {
		k = c;
		__asm__("");
	}
	/* If k is 0, the rule inherited from the block before is the idx byte before the record. */
	at = s - 1;
	if (!ETCH_UNLIKELY(k == 0))
		at += c + k;
	idx = t->pool[at];
	if (ETCH_UNLIKELY(k == 16) || ETCH_UNLIKELY(idx >= t->direct))
		return etch_block_find_rest(t, offset, s, c);
	return &t->palette[idx];
}

static inline const struct etch_rule *etch_block_find(const struct etch_unwind *u, uint64_t offset)
{
	struct etch_block t;

	etch_block_open(u, &t);
	return etch_block_find_in(&t, offset);
}

/* etch_block_find_in() without SSE2: a readable reference, against which the SSE2 version is tested. */
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
 * A step is a map byte that is its own rule. Its lower 5 bits are the size of the frame in units of 16 bytes, less
 * one: the stack is aligned at a call. Its upper 3 bits say where rbp is: at CFA - 48 (0) to CFA - 16 (4), the places
 * that it has among the six registers that a function may push; or unchanged (5). The code of the largest frame with
 * rbp at CFA - 16 means a frame with a frame pointer instead.
 */

/* The CFA minus rsp; for a frame with a frame pointer, the CFA minus rbp. */
static inline uint32_t etch_map_step_cfa(uint32_t code)
{
	return code == ETCH_MAP_RBP_FRAME ? 16 : 16 * (code & 31) + 16;
}

/* The CFA minus the address where rbp is saved; 0 if rbp is unchanged. */
static inline uint32_t etch_map_step_bp(uint32_t code) { return code >> 5 < 5 ? 48 - 8 * (code >> 5) : 0; }

/* The step for a rule, or ETCH_MAP_FULL if there is none. */
static inline uint32_t etch_map_step(const struct etch_map_rule *m)
{
	uint32_t size = (uint32_t)m->cfa - 16, code = size / 16 | (m->bp ? (uint32_t)(48 + m->bp) / 8 : 5) << 5;

	if (m->flags & ETCH_MAP_RBP)
		return m->cfa == 16 && m->bp == -16 ? ETCH_MAP_RBP_FRAME : ETCH_MAP_FULL;
	if (size > 31 * 16 || (size & 15) || (m->bp && (m->bp < -48 || m->bp > -16 || (m->bp & 7))))
		return ETCH_MAP_FULL;
	return code == ETCH_MAP_RBP_FRAME ? ETCH_MAP_FULL : code;
}

/* Are frames with a frame pointer frequent in a map, more than one of 32 granules? Readers then select the base of
 * the CFA without a branch. */
static inline uint16_t etch_map_rbp(const uint8_t *map, uint64_t granules)
{
	const __m128i none = _mm_setzero_si128(), one = _mm_set1_epi8(1), last = _mm_set1_epi8((char)(ETCH_MAP_STEPS - 1)),
				  frame = _mm_set1_epi8((char)ETCH_MAP_RBP_FRAME);
	__m128i step_sum = none, rbp_sum = none, v;
	uint64_t steps, rbp, i = 0;

	for (; i + 16 <= granules; i += 16) {
		v = _mm_loadu_si128((const __m128i *)(const void *)(map + i));
		step_sum = _mm_add_epi64(step_sum,
		                         _mm_sad_epu8(_mm_and_si128(one, _mm_cmpeq_epi8(none, _mm_subs_epu8(v, last))), none));
		rbp_sum = _mm_add_epi64(rbp_sum, _mm_sad_epu8(_mm_and_si128(one, _mm_cmpeq_epi8(v, frame)), none));
	}
	steps = (uint64_t)_mm_cvtsi128_si64(step_sum) + (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(step_sum, none));
	rbp = (uint64_t)_mm_cvtsi128_si64(rbp_sum) + (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(rbp_sum, none));
	for (; i < granules; i++) {
		steps += map[i] < ETCH_MAP_STEPS;
		rbp += map[i] == ETCH_MAP_RBP_FRAME;
	}
	return rbp * 32 > steps;
}

/* The map byte, other than an exception, of a return address whose granule has the byte `code`, at least
 * ETCH_MAP_CODES. ETCH_MAP_FULL: use the full table. */
static inline uint32_t etch_map_exception(const struct etch_block *t, uint64_t offset, uint32_t code)
{
	uint8_t in = (uint8_t)(offset & ((1u << t->map_shift) - 1));
	uint32_t unit, i;

	if (code == ETCH_MAP_FULL || code < ETCH_MAP_CODES)
		return ETCH_MAP_FULL;
	unit = t->map_page[offset >> t->map_shift >> t->map_page_shift] + (ETCH_MAP_UNIT - code);
	for (i = 0; i < ETCH_MAP_CHAIN && unit < t->map_unit_count; i++, unit++) {
		const uint8_t *p = t->map_unit + (size_t)unit * ETCH_UNIT_SIZE;

		code = in < p[0] ? p[1] : p[2];
		if (in < p[0] || code != ETCH_MAP_UNIT)
			return code < t->map_codes ? code : ETCH_MAP_FULL;
	}
	return ETCH_MAP_FULL;
}

/*
 * The rule of a return address, given by its own offset from etch_unwind.text (1 to text_size), in a table with a
 * map. A call must have pushed the address: the map covers no others. Returns 1 and the rule in *out, or 0: then use
 * etch_block_find_in(t, offset - 1).
 */
static inline int etch_map_find_in(const struct etch_block *t, uint64_t offset, struct etch_map_rule *out)
{
	uint32_t code;

	if (ETCH_UNLIKELY(offset > t->text_size))
		return 0;
	code = t->map[offset >> t->map_shift];
	if (ETCH_UNLIKELY(code >= t->map_codes))
		code = etch_map_exception(t, offset, code);
	if (ETCH_UNLIKELY(code == ETCH_MAP_FULL))
		return 0;
	if (code >= t->map_steps) {
		*out = t->map_palette[code - t->map_steps];
		return 1;
	}
	out->cfa = (int32_t)etch_map_step_cfa(code);
	out->bp = (int16_t) - (int)etch_map_step_bp(code);
	out->flags = code == ETCH_MAP_RBP_FRAME ? ETCH_MAP_RBP : 0;
	out->zero = 0;
	return 1;
}

/* Does what etch_map_find_in() does, from the header of a table. Returns 0 also if the table has no map. */
static inline int etch_map_find(const struct etch_unwind *u, uint64_t offset, struct etch_map_rule *out)
{
	struct etch_block t;

	if (!u->map_shift)
		return 0;
	etch_block_open(u, &t);
	return etch_map_find_in(&t, offset, out);
}

/* Packs a rule for the map. Returns 1, or 0 if the rule does not fit. */
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

/* The inverse of etch_map_rule_pack(). */
static inline void etch_map_rule_unpack(const struct etch_map_rule *m, struct etch_rule *out)
{
	memset(out, 0, sizeof(*out));
	out->cfa_off = m->cfa;
	out->bp_off = m->bp;
	out->cfa = m->flags & ETCH_MAP_RBP ? ETCH_REG_RBP : ETCH_REG_RSP;
	out->bp = m->bp ? ETCH_BP_CFA : ETCH_BP_SAME;
	out->kind = ETCH_RULE_CALL;
}

#ifdef __cplusplus
}
#endif
#endif
