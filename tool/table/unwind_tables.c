/* SPDX-License-Identifier: MIT */
/* Encodes and decodes the block table (etch/orc.h). */
#include "table/unwind_tables.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

#include <etch/orc_registers.h>

#include "table/unwind_encoder.h"

static uint64_t place(uint64_t *end, uint64_t bytes, unsigned align)
{
	uint64_t at = (*end + align - 1) & ~(uint64_t)(align - 1);

	*end = at + bytes;
	return at;
}

static uint16_t version_of(const struct numbered *n, const struct map *m, unsigned encoding)
{
	if (encoding == ETCH_ENCODING_REGISTERS)
		return ETCH_REGISTERS_VERSION;
	return m->shift ? ETCH_UNWIND_VERSION_STEPS : etch_rules_version(n->palette.list, n->palette.count);
}

/* Computes where the arrays of a table lie. Returns -1 if the table would exceed 4 GiB. */
static int layout_make(const struct numbered *n, const struct map *m, unsigned encoding, uint32_t escapes,
                       struct etch_unwind *u)
{
	uint64_t blocks = (n->size + 255) >> ETCH_BLOCK_SHIFT, end = sizeof(*u), entries = 0, at[10];
	const struct unwind_run *run;
	size_t i;

	memset(u, 0, sizeof(*u));
	for (i = n->first; i < n->count; i += entry_rows(n, i, &run))
		entries++;
	at[0] = place(&end, ((blocks >> ETCH_GROUP_SHIFT) + 1) * 4, 4);
	at[1] = place(&end, (blocks + 1) * 2, 2);
	at[2] = place(&end, n->palette.count * sizeof(struct etch_rule), 4);
	at[3] = place(&end, escapes * sizeof(struct etch_escape), 4);
	if (m->shift) {
		at[4] = place(&end, m->palette_count * sizeof(struct etch_map_rule), 4);
		at[5] = place(&end, m->pages * 4, 4);
		at[6] = place(&end, m->granules, 1);
		at[7] = place(&end, (uint64_t)m->units * ETCH_UNIT_SIZE, 1);
	}
	at[8] = place(&end, n->runs.count * sizeof(struct etch_run), 4);
	at[9] = place(&end, 1 + 2 * entries + ETCH_POOL_TAIL, 1);
	end = (end + 7) & ~7ull;
	if (end > UINT32_MAX)
		return -1;

	u->magic = ETCH_UNWIND_MAGIC;
	u->version = version_of(n, m, encoding);
	u->size = sizeof(*u);
	u->bytes = end;
	u->encoding = encoding == ETCH_ENCODING_REGISTERS ? ETCH_ENCODING_REGISTERS : ETCH_ENCODING_BLOCK;
	u->map_shift = (uint8_t)m->shift;
	u->rows = (uint32_t)(n->count - n->first) + 1;
	u->text = n->text;
	u->text_size = n->size;
	u->base = (uint32_t)at[0];
	u->hd = (uint32_t)at[1];
	u->palette = (uint32_t)at[2];
	u->palette_count = n->palette.count;
	u->escape = (uint32_t)at[3];
	u->escape_count = escapes;
	if (n->runs.count)
		u->run = (uint32_t)at[8];
	u->run_count = n->runs.count;
	u->pool = (uint32_t)at[9];
	u->pool_size = (uint32_t)(1 + 2 * entries + ETCH_POOL_TAIL);
	if (m->shift) {
		u->map_palette = (uint32_t)at[4];
		u->map_palette_count = m->palette_count;
		u->map_first = ETCH_MAP_STEPS;
		u->map_rbp = etch_map_rbp(m->bytes, m->granules);
		u->map_page = (uint32_t)at[5];
		u->map_page_count = m->pages;
		u->map = (uint32_t)at[6];
		u->map_unit = (uint32_t)at[7];
		u->map_unit_count = m->units;
	}
	return 0;
}

/* Writes the idx byte of a rule at `at`. If the rule has none, writes an escape. */
static void idx_put(const struct numbered *n, uint8_t *pool, uint32_t at, uint32_t rule, struct etch_escape **escape)
{
	pool[at] = (uint8_t)(rule < n->direct ? rule : ETCH_IDX_ESCAPE);
	if (rule >= n->direct)
		*(*escape)++ = (struct etch_escape){at, rule};
}

static void runs_write(const struct numbered *n, struct etch_run *out)
{
	uint32_t i, k;

	for (i = 0; i < n->runs.count; i++, out++) {
		memset(out, 255, sizeof(*out));
		for (k = 0; k < n->runs.list[i].n && k < sizeof(out->off); k++) {
			out->off[k] = n->runs.list[i].off[k];
			out->idx[k] = (uint8_t)n->runs.list[i].rule[k];
		}
	}
}

/* Writes the records of all blocks, the index of the records, and the escapes. */
static void records_write(const struct numbered *n, uint8_t *table, const struct etch_unwind *u)
{
	uint64_t blocks = (n->size + 255) >> ETCH_BLOCK_SHIFT, b;
	uint16_t *hd = (void *)(table + u->hd);
	uint32_t *base = (void *)(table + u->base), at = 0;
	struct etch_escape *escape = (void *)(table + u->escape);
	uint8_t *pool = table + u->pool;
	const struct unwind_run *run;
	size_t row = n->first, end, i;

	idx_put(n, pool, at++, n->before, &escape);
	for (b = 0; b <= blocks; b++) {
		uint64_t limit = n->text + ((b + 1) << ETCH_BLOCK_SHIFT);

		if (!(b & ((1u << ETCH_GROUP_SHIFT) - 1)))
			base[b >> ETCH_GROUP_SHIFT] = at;
		hd[b] = (uint16_t)(at - base[b >> ETCH_GROUP_SHIFT]);
		for (end = row; end < n->count && n->rows[end].addr < limit; end += entry_rows(n, end, &run))
			pool[at++] = (uint8_t)(n->rows[end].addr - n->text);
		for (i = row; i < end; i += entry_rows(n, i, &run), at++) {
			entry_rows(n, i, &run);
			if (run)
				pool[at] = (uint8_t)(n->direct + (run - n->runs.list));
			else
				idx_put(n, pool, at, n->rule[i], &escape);
		}
		row = end;
	}
}

static int table_make(const struct numbered *n, const struct map *m, unsigned encoding, uint8_t **out, size_t *size,
                      struct error *e)
{
	uint32_t escapes = n->before >= n->direct;
	const struct unwind_run *run;
	struct etch_unwind u;
	size_t i;

	for (i = n->first; i < n->count; i += entry_rows(n, i, &run))
		escapes += !n->runs.of_row[i - n->first] && n->rule[i] >= n->direct;
	if (layout_make(n, m, encoding, escapes, &u))
		return error_set(e, "the unwind table would be larger than 4 GiB");
	*out = mem_zero(1, u.bytes);
	*size = u.bytes;
	memcpy(*out, &u, sizeof(u));
	memcpy(*out + u.palette, n->palette.list, n->palette.count * sizeof(struct etch_rule));
	runs_write(n, (void *)(*out + u.run));
	records_write(n, *out, &u);
	if (m->shift) {
		memcpy(*out + u.map_palette, m->palette, m->palette_count * sizeof(struct etch_map_rule));
		memcpy(*out + u.map_page, m->page, m->pages * 4);
		memcpy(*out + u.map, m->bytes, m->granules);
		memcpy(*out + u.map_unit, m->unit, (size_t)m->units * ETCH_UNIT_SIZE);
	}
	return 0;
}

int unwind_block_encode(const struct row_list *rows, const struct unwind_kind *kind, uint8_t **out, size_t *size,
                        struct error *e)
{
	struct map map = {0};
	struct numbered n;
	int status;

	*out = NULL;
	*size = 0;
	if (numbered_make(rows, kind->encoding, &n, e))
		return -1;
	if (kind->map_shift)
		map_make(&n, kind->calls, kind->call_count, kind->map_shift, &map);
	status = table_make(&n, &map, kind->encoding, out, size, e);
	map_free(&map);
	numbered_free(&n);
	return status;
}

void unwind_sources_encode(const struct row_list *rows, uint8_t **out, size_t *size)
{
	size_t count = rows->count ? rows->count - 1 : 0, i;
	size_t lead = !count || (rows->rows[0].addr & 255); /* this adds the same row as `lead` in numbered_make() */

	*size = (count + lead + 3) / 4;
	*out = mem_zero(1, *size);
	for (i = 0; i < count; i++)
		(*out)[(i + lead) / 4] |= (uint8_t)((rows->rows[i].source & 3u) << ((i + lead) % 4 * 2));
}

bool unwind_orc_pack(const struct etch_rule *rule, unsigned source, struct etch_orc *out)
{
	return etch_orc_pack(rule, source, out);
}

int unwind_block_decode(const uint8_t *table, size_t size, const uint8_t *sources, size_t sources_size,
                        struct row_list *out, struct error *e)
{
	const struct etch_unwind *u = (const void *)table;
	struct etch_block t;
	uint64_t blocks, b;
	size_t n = 0, i;

	memset(out, 0, sizeof(*out));
	if (size < sizeof(*u) || (u->encoding != ETCH_ENCODING_BLOCK && u->encoding != ETCH_ENCODING_REGISTERS))
		return error_set(e, "not a block table");
	etch_block_open(u, &t);
	blocks = (u->text_size + 255) >> ETCH_BLOCK_SHIFT;
	out->capacity = (size_t)u->rows + 1;
	out->rows = mem_alloc(out->capacity, sizeof(*out->rows));
	out->rows[n++] = (struct row){.addr = u->text, .rule = *etch_block_rule(&t, 0, 0)};
	for (b = 0; b < blocks; b++) {
		uint32_t s = etch_block_record(&t, b), c = (etch_block_record(&t, b + 1) - s) / 2, k;

		for (i = 0; i < c; i++) {
			uint32_t idx = t.pool[s + c + i], more = 1;
			uint64_t addr = u->text + (b << ETCH_BLOCK_SHIFT) + t.pool[s + i];
			const uint8_t *off = (const uint8_t[]){0};

			if (idx >= t.first_run && idx != ETCH_IDX_ESCAPE) {
				off = t.run[idx - t.first_run].off;
				more = etch_run_rows(&t, idx - t.first_run);
			}
			for (k = 0; k < more && n < u->rows; k++)
				out->rows[n++] =
					(struct row){.addr = addr + off[k], .rule = *etch_block_rule(&t, s + c + (uint32_t)i, off[k])};
		}
	}
	if (sources)
		for (i = 0; i < n && i / 4 < sources_size; i++)
			out->rows[i].source = sources[i / 4] >> (i % 4 * 2) & 3;
	/* The table of an empty text has a rule in front of its records, but no row. */
	if (!u->text_size)
		n = 0;
	out->rows[n++] = (struct row){.addr = u->text + u->text_size};
	out->count = n;
	return 0;
}
