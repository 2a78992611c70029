/* SPDX-License-Identifier: MIT */
/*
 * Damaged tables: for tables.c.
 */
#include "tables.h"

/* A number that hurts, for a field of `bytes` bytes. */
static uint64_t number(unsigned bytes, uint64_t was)
{
	static const uint64_t odd[] = { 0, 1, 2, 3, 31, 32, 33, 255, 256, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
	                                1ull << 32, 1ull << 63, ~0ull };
	uint64_t n;

	switch (below(4)) {
	case 0:
		n = odd[below(sizeof(odd) / sizeof(*odd))];
		break;
	case 1:
		n = was + below(9) - 4;
		break;
	case 2:
		n = was ^ 1ull << below(bytes * 8);
		break;
	default:
		n = rnd() >> below(60);
	}
	return n;
}

static void mutate_one(uint8_t *table, size_t size)
{
	struct etch_unwind *u = (void *)table;
	uint32_t n = 1 + below(4), where = below(12);

	/* The last entry of a record: a run at the end of its block. */
	if (below(12) == 0 && etch_unwind_header_valid(table, size) && u->run_count && u->text_size > 256) {
		uint32_t b = below((uint32_t)(u->text_size >> ETCH_BLOCK_SHIFT)), s, e;
		struct etch_block t;

		etch_block_open(u, &t);
		s = etch_block_record(&t, b);
		e = etch_block_record(&t, b + 1);
		if (s > e || e > t.pool_end || e - s < 2)
			return;
		table[u->pool + s + (e - s) / 2 - 1] = (uint8_t)(255 - below(12));
		table[u->pool + e - 1] = (uint8_t)(254 - below(u->run_count));
		return;
	}

	while (n--) {
		size_t at;
		uint64_t v = 0;
		unsigned bytes = 1u << below(4);

		if (where < 4 && size >= sizeof(*u)) /* the header */
			at = below(sizeof(*u));
		else if (where == 4 && size > sizeof(*u) && size > u->palette && u->base < u->palette) /* base and hd */
			at = u->base + below(u->palette - u->base);
		else if (where < 8 && size > sizeof(*u) && size > u->pool && u->pool > sizeof(*u)) { /* a record */
			at = u->pool + below((uint32_t)size - u->pool);
			table[at] = (uint8_t)(below(2) ? 255 - below(u->run_count + 2) : table[at] + below(5) - 2);
			continue;
		} else
			at = below((uint32_t)size);
		if (where < 5)
			at &= ~(size_t)(bytes - 1);
		if (at + bytes > size)
			bytes = 1;
		memcpy(&v, table + at, bytes);
		v = number(bytes, v);
		memcpy(table + at, &v, bytes);
	}
}

static uint64_t spend; /* so that no lookup is optimized away */

static void mutant_lookups(const uint8_t *table, uint64_t *agree)
{
	const struct etch_unwind *u = (const void *)table;
	uint64_t i, step = u->text_size > 20000 ? u->text_size / 8000 : 1;

	for (i = 0; i < u->text_size + 600; i += step > 1 ? 1 + rnd() % (2 * step) : 1) {
		const struct etch_rule *a = etch_block_find(u, i), *b = etch_block_find_scalar(u, i);
		struct etch_map_rule m;

		spend += (uint64_t)a->cfa_off + b->kind + (etch_map_find(u, i, &m) ? m.flags : 0u);
		*agree += a == b;
	}
}

/* What the complete validator accepts must be the same for every reader. */
static void accepted_check(const uint8_t *table, size_t size)
{
	const struct etch_unwind *u = (const void *)table;
	struct row_list rows;
	struct error e;
	uint64_t i;
	size_t row = 0;

	check_error(unwind_block_decode(table, size, NULL, 0, &rows, &e), &e);
	if (rows.count != (u->text_size ? u->rows + 1 : 1))
		fail("%zu rows in a table of %u", rows.count, u->rows);
	for (i = 1; i < rows.count; i++)
		if (rows.rows[i].addr <= rows.rows[i - 1].addr && u->text_size)
			fail("rows of an accepted table are out of order");
	for (i = 0; i < u->text_size && i < 200000; i++) {
		const struct etch_rule *a = etch_block_find(u, i);

		while (row + 1 < rows.count && rows.rows[row + 1].addr <= u->text + i)
			row++;
		if (!etch_rule_equal(a, &rows.rows[row].rule) || !etch_rule_equal(a, etch_block_find_scalar(u, i)))
			fail("an accepted table says two things at +0x%llx", (unsigned long long)i);
	}
	row_list_free(&rows);
}

void mutate(unsigned tables, unsigned mutants)
{
	uint64_t safe = 0, accepted = 0, refused = 0, agree = 0;
	unsigned i, k;

	for (i = 0; i < tables; i++) {
		struct unwind_kind kind;
		struct sample s;
		uint8_t *table;
		size_t size;
		struct error e;

		do {
			sample_make(&s);
			if (s.size <= 9000)
				break;
			sample_free(&s);
		} while (1);
		kind = (struct unwind_kind){
			.map_shift = below(3) ? 5 + 1 + below(2) : 0, .calls = s.calls, .call_count = s.call_count};
		check_error(unwind_block_encode(&s.rows, &kind, &table, &size, &e), &e);
		sample_free(&s);
		for (k = 0; k < mutants; k++) {
			size_t length = below(20) ? size : below((uint32_t)size);
			uint8_t *m = malloc(length ? length : 1);

			memcpy(m, table, length);
			if (length < size && length >= sizeof(struct etch_unwind) && below(2))
				((struct etch_unwind *)(void *)m)->bytes = length;
			if (length && (length == size || below(2)))
				mutate_one(m, length);
			if (!etch_unwind_header_valid(m, length)) {
				if (etch_unwind_valid(m, length))
					fail("valid without a valid header");
				refused++;
			} else if (((struct etch_unwind *)(void *)m)->encoding == ETCH_ENCODING_BLOCK) {
				mutant_lookups(m, &agree);
				safe++;
				if (etch_unwind_valid(m, length)) {
					accepted_check(m, length);
					accepted++;
				}
			}
			free(m);
		}
		free(table);
	}
	printf("mutants=%llu refused=%llu looked_up=%llu accepted=%llu\n", (unsigned long long)(refused + safe),
	       (unsigned long long)refused, (unsigned long long)safe, (unsigned long long)accepted);
}
