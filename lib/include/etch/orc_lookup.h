/* SPDX-License-Identifier: MIT */
/*
 * etch/orc_lookup.h: lookups in, and validation of, the tables of etch/orc.h. Shared by the tool
 * and libetch.
 *
 * Every function is async-signal-safe and thread-safe: it has no state, calls only memcpy of libc,
 * writes only to its arguments, and does bounded work.
 *
 * Safety against hostile tables: etch_unwind_header_valid() takes constant time and guarantees that
 * all arrays lie inside the table; each lookup then checks every number that it takes from an array
 * before using it. In a well-formed table these branches are never taken, and they are not part of
 * a lookup's chain of dependent loads, so no table has to be read as a whole at load time.
 * etch_unwind_valid() does read the whole table, and accepts only what the tool could have written.
 */
#ifndef ETCH_ORC_LOOKUP_H
#define ETCH_ORC_LOOKUP_H

#include <etch/orc_arrays.h>
#include <etch/orc_block.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number of rows of run number `run`, 2 to ETCH_RUN_ROWS; 0 if the run is malformed. */
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

/* The state of the check of a table. */
struct etch_block_check {
	uint32_t escape;               /* number of escapes used */
	uint8_t runs[ETCH_IDX_ESCAPE]; /* rows of each run */
};

/* Checks entry i of the c entries in the record at `at`. Returns the number of rows that the entry stands for, or 0
 * if it is malformed. `left` is the number of bytes of text from the block's start to the end of text. */
static inline uint32_t etch_entry_rows(const struct etch_block *t, uint32_t at, uint32_t i, uint32_t c, uint64_t left,
                                       struct etch_block_check *check)
{
	uint32_t off = t->pool[at + i], idx = t->pool[at + c + i], n = 1;

	if (idx == ETCH_IDX_ESCAPE) {
		if (check->escape == t->escape_count || t->escape[check->escape].at != at + c + i ||
		    t->escape[check->escape].rule >= t->palette_count)
			return 0;
		check->escape++;
	} else if (idx >= t->first_run) {
		n = check->runs[idx - t->first_run];
		off += t->run[idx - t->first_run].off[n - 1];
	} else if (idx >= t->direct) {
		return 0;
	}
	/* All rows of a run lie before the next entry, inside the block and inside the text. */
	if (off > 255 || off >= left || (i + 1 < c && off >= t->pool[at + i + 1]))
		return 0;
	return n;
}

/* Are the records of all blocks, the runs and the escapes well formed? */
static inline int etch_block_records_valid(const struct etch_unwind *u, const struct etch_block *t)
{
	uint64_t blocks = (u->text_size + 255) >> ETCH_BLOCK_SHIFT, rows = 1, b;
	struct etch_block_check check;
	uint32_t i, at = 1;

	for (i = 0; i < u->run_count; i++) {
		check.runs[i] = (uint8_t)etch_run_rows(t, i);
		if (!check.runs[i])
			return 0;
	}
	check.escape = 0;
	/* The byte before the first record is the rule inherited by block 0 and cannot be a run. Records are contiguous
	 * and fill the pool. */
	if (t->pool[0] >= t->direct) {
		if (t->pool[0] != ETCH_IDX_ESCAPE || !t->escape_count || t->escape[0].at ||
		    t->escape[0].rule >= t->palette_count)
			return 0;
		check.escape = 1;
	}
	if (etch_block_record(t, 0) != at || (blocks && etch_block_record(t, 1) > at && !t->pool[at]))
		return 0; /* the row at `text` is the byte before the first record */
	for (b = 0; b < blocks; b++) {
		uint32_t next = etch_block_record(t, b + 1), c = (next - at) / 2;

		if (next < at || next > t->pool_end || ((next - at) & 1))
			return 0;
		for (i = 0; i < c; i++) {
			uint32_t n = etch_entry_rows(t, at, i, c, u->text_size - (b << ETCH_BLOCK_SHIFT), &check);

			if (!n)
				return 0;
			rows += n;
		}
		at = next;
	}
	return at == t->pool_end && check.escape == t->escape_count && rows == u->rows;
}

static inline int etch_block_valid(const struct etch_unwind *u, const struct etch_block *t)
{
	uint32_t i;

	for (i = 0; i < t->palette_count; i++)
		if (!etch_rule_valid(&t->palette[i]))
			return 0;
	return u->version ==
	           (t->map_steps ? ETCH_UNWIND_VERSION_STEPS : etch_rules_version(t->palette, t->palette_count)) &&
	       etch_block_records_valid(u, t);
}

/* The first granule from g on whose map byte stands neither for a rule nor for the full table (ETCH_MAP_FULL);
 * `granules` if there is none. */
static inline uint64_t etch_map_exception_next(const struct etch_block *t, uint64_t g, uint64_t granules)
{
	const __m128i codes = _mm_set1_epi8((char)t->map_codes), full = _mm_set1_epi8((char)ETCH_MAP_FULL);

	for (; g + 16 <= granules; g += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)(t->map + g));
		__m128i rest = _mm_andnot_si128(_mm_cmpeq_epi8(v, full), _mm_cmpeq_epi8(v, _mm_max_epu8(v, codes)));
		int hits = _mm_movemask_epi8(rest);

		if (hits)
			return g + (unsigned)__builtin_ctz((unsigned)hits);
	}
	while (g < granules && (t->map[g] < t->map_codes || t->map[g] == ETCH_MAP_FULL))
		g++;
	return g;
}

static inline int etch_map_rule_valid(const struct etch_unwind *u, const struct etch_block *t, uint32_t i)
{
	const struct etch_map_rule *r = &t->map_palette[i];

	if (r->zero)
		return 0;
	if (t->map_steps)
		return r->flags <= ETCH_MAP_RBP && etch_map_step(r) == ETCH_MAP_FULL;
	return r->flags == (i < u->map_first ? 0 : ETCH_MAP_RBP);
}

/* Does a granule's chain of exception units that begins at `unit` end before `end`, with ascending splits? */
static inline int etch_map_chain_valid(const struct etch_block *t, uint32_t unit, uint32_t end)
{
	uint32_t n = 0, split = 0;

	for (;; unit++) {
		const uint8_t *p = t->map_unit + (size_t)unit * ETCH_UNIT_SIZE;

		if (unit >= end || ++n > ETCH_MAP_CHAIN || p[0] <= split || p[0] >> t->map_shift ||
		    (p[1] >= t->map_codes && p[1] != ETCH_MAP_FULL))
			return 0;
		split = p[0];
		if (p[2] != ETCH_MAP_UNIT)
			return p[2] < t->map_codes || p[2] == ETCH_MAP_FULL;
	}
}

static inline int etch_map_valid(const struct etch_unwind *u, const struct etch_block *t)
{
	uint64_t granules = etch_map_bytes(u), g;
	uint32_t i;

	if (t->map_steps && u->map_rbp != etch_map_rbp(t->map, granules))
		return 0;
	for (i = 0; i < u->map_palette_count; i++)
		if (!etch_map_rule_valid(u, t, i))
			return 0;
	for (i = 0; i < u->map_page_count; i++)
		if (t->map_page[i] > t->map_unit_count || (i ? t->map_page[i] < t->map_page[i - 1] : t->map_page[i]))
			return 0;
	for (g = etch_map_exception_next(t, 0, granules); g < granules; g = etch_map_exception_next(t, g + 1, granules)) {
		uint64_t page = g >> t->map_page_shift;
		uint32_t code = t->map[g];
		uint32_t end = page + 1 < u->map_page_count ? t->map_page[page + 1] : t->map_unit_count;

		if (code < ETCH_MAP_CODES || !etch_map_chain_valid(t, t->map_page[page] + (ETCH_MAP_UNIT - code), end))
			return 0;
	}
	return 1;
}

/*
 * Validates a whole block table, or the header of an orc table (for its arrays call
 * etch_orc_valid()). Takes linear time. Returns 1 for a table as the tool writes it, 0 for a
 * malformed one.
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
