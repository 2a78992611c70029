/* SPDX-License-Identifier: MIT */
/* Encodes the map of return addresses. Decides which byte selects which rule. */
#include "table/unwind_encoder.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

#include <etch/orc_block.h>

#define NO_RULE UINT32_MAX

/* Adjacent return addresses in one granule that have the same rule. */
struct run {
	uint32_t granule;
	uint32_t rule;  /* index in n->palette; NO_RULE: only the full table has the rule */
	uint32_t split; /* offset in the granule from which on the rule applies */
};

void map_free(struct map *m)
{
	free(m->bytes);
	free(m->page);
	free(m->unit);
	free(m->palette);
}

/* Makes the runs of all return addresses. Returns their number. */
static size_t runs_make(const struct numbered *n, const uint64_t *calls, size_t call_count, unsigned shift,
                        struct run *runs)
{
	struct etch_map_rule ignored;
	size_t i, row = 0, count = 0;

	if (!n->count)
		return 0;
	for (i = 0; i < call_count; i++) {
		uint64_t call = calls[i], offset = call - n->text, start;
		struct run r;

		if (call <= n->text || offset > n->size)
			continue;
		while (row + 1 < n->count && n->rows[row + 1].addr < call)
			row++;
		r.granule = (uint32_t)(offset >> shift);
		r.rule = n->rule[row];
		if (call <= n->rows[0].addr || !etch_map_rule_pack(&n->rows[row].rule, &ignored))
			r.rule = NO_RULE;
		if (count && runs[count - 1].granule == r.granule && runs[count - 1].rule == r.rule)
			continue;
		/* The rule changes after the first byte of the row, since a return address is looked up by the byte in front of
		 * it. */
		start = n->rows[row].addr + 1 - n->text;
		r.split = start >> shift == r.granule ? (uint32_t)(start & ((1u << shift) - 1)) : 0;
		runs[count++] = r;
	}
	return count;
}

/* The number of runs with a rule. The rules with most runs get into the map's palette. */
struct use {
	uint32_t count, rule;
};

static int use_compare(const void *a, const void *b)
{
	const struct use *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return x->rule < y->rule ? -1 : x->rule > y->rule;
}

/* Makes the map's palette from the rules that no step expresses. Sets code[rule] to the rule's byte, or to
 * ETCH_MAP_FULL if it has none. */
static void map_palette_make(const struct numbered *n, const struct run *runs, size_t run_count, struct map *m,
                             uint8_t *code)
{
	uint32_t rules = n->palette.count, i;
	struct use *use = mem_zero(rules, sizeof(*use));
	struct etch_map_rule packed;
	size_t r;

	m->palette = mem_zero(ETCH_MAP_CODES - ETCH_MAP_STEPS, sizeof(*m->palette));
	for (i = 0; i < rules; i++)
		use[i].rule = i;
	for (r = 0; r < run_count; r++)
		if (runs[r].rule != NO_RULE)
			use[runs[r].rule].count++;
	qsort(use, rules, sizeof(*use), use_compare);
	memset(code, ETCH_MAP_FULL, rules);
	for (i = 0; i < rules && use[i].count; i++) {
		uint8_t *c = &code[use[i].rule];

		etch_map_rule_pack(&n->palette.list[use[i].rule], &packed);
		*c = (uint8_t)etch_map_step(&packed);
		if (*c != ETCH_MAP_FULL || m->palette_count == ETCH_MAP_CODES - ETCH_MAP_STEPS)
			continue;
		*c = (uint8_t)(ETCH_MAP_STEPS + m->palette_count);
		m->palette[m->palette_count++] = packed;
	}
	free(use);
}

/* Is a granule near a row that is entered by a return? In such granules the full table is used. */
static bool near_entered_by_return(const struct numbered *n, size_t *row, uint64_t granule, unsigned shift)
{
	uint64_t lo = n->text + (granule << shift), hi = lo + (1ull << shift);

	for (; *row < n->count; ++*row) {
		uint64_t end = *row + 1 < n->count ? n->rows[*row + 1].addr : n->text + n->size;

		if (!is_entered_by_return(&n->rows[*row]) || end < lo)
			continue;
		return n->rows[*row].addr < hi;
	}
	return false;
}

/* Makes the exception units for the runs of a granule, at most ETCH_MAP_CHAIN. Returns the granule's byte in the
 * map. */
static uint8_t granule_encode(struct map *m, const struct run *runs, size_t count, const uint8_t *code,
                              uint32_t page_unit)
{
	uint8_t codes[ETCH_MAP_CHAIN + 1], split[ETCH_MAP_CHAIN + 1];
	uint32_t n = 0, i;
	size_t r;

	for (r = 0; r < count; r++) {
		uint8_t c = runs[r].rule == NO_RULE ? ETCH_MAP_FULL : code[runs[r].rule];

		if (n && codes[n - 1] == c)
			continue;
		if (n > ETCH_MAP_CHAIN)
			return ETCH_MAP_FULL;
		codes[n] = c;
		split[n++] = (uint8_t)runs[r].split;
	}
	if (n == 1)
		return codes[0];
	if (m->units - page_unit > ETCH_MAP_UNIT - ETCH_MAP_CODES)
		return ETCH_MAP_FULL;
	for (i = 0; i + 1 < n; i++) {
		uint8_t *p = m->unit + (size_t)(m->units + i) * ETCH_UNIT_SIZE;

		p[0] = split[i + 1];
		p[1] = codes[i];
		p[2] = i + 2 < n ? ETCH_MAP_UNIT : codes[i + 1];
	}
	m->units += n - 1;
	return (uint8_t)(ETCH_MAP_UNIT - (m->units - (n - 1) - page_unit));
}

void map_make(const struct numbered *n, const uint64_t *calls, size_t call_count, unsigned shift, struct map *m)
{
	unsigned page_shift = etch_map_page_shift(shift);
	struct run *runs = mem_alloc(call_count, sizeof(*runs));
	uint8_t *code = mem_alloc(n->palette.count, 1);
	size_t count = runs_make(n, calls, call_count, shift, runs), r = 0, end, entered = 0;
	uint64_t page;

	m->shift = shift;
	m->granules = (n->size >> shift) + 1;
	m->pages = (uint32_t)((m->granules - 1) >> page_shift) + 1;
	m->bytes = mem_alloc(m->granules, 1);
	m->page = mem_alloc(m->pages, sizeof(*m->page));
	m->unit = mem_alloc(count, ETCH_UNIT_SIZE);
	map_palette_make(n, runs, count, m, code);

	/* Granules without a return address refer to the full table, which is right for every address. */
	memset(m->bytes, ETCH_MAP_FULL, m->granules);
	for (page = 0; page < m->pages; page++) {
		m->page[page] = m->units;
		for (; r < count && runs[r].granule >> page_shift == page; r = end) {
			for (end = r + 1; end < count && runs[end].granule == runs[r].granule; end++)
				;
			if (!near_entered_by_return(n, &entered, runs[r].granule, shift))
				m->bytes[runs[r].granule] = granule_encode(m, runs + r, end - r, code, m->page[page]);
		}
	}
	free(runs);
	free(code);
}
