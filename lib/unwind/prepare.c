/* SPDX-License-Identifier: MIT */
/*
 * prepare.c: makes a block table (etch/orc.h) for a loaded module from its .eh_frame.
 *
 * Runs in normal context only, never in a signal handler: it maps memory and is slow. Reads only
 * the module's readable segments.
 */
#include <string.h>
#include <sys/mman.h>

#include "unwind/table_builder.h"
#include "common/sys.h"

/* ---- memory -------------------------------------------------------------------- */

static __attribute__((noinline)) bool array_grow(struct array *a, uint64_t each)
{
	uint64_t capacity = a->capacity ? 2 * a->capacity : 65536 / each;
	long p;

	if (a->list)
		p = sys_call6(SYS_mremap, (long)a->list, (long)(a->capacity * each), (long)(capacity * each), MREMAP_MAYMOVE, 0,
		              0);
	else
		p = (long)sys_map(capacity * each, 0);
	if (!p || (p < 0 && p > -4096))
		return false;
	a->list = (void *)p;
	a->capacity = capacity;
	return true;
}

static inline void *array_add(struct array *a, uint64_t each)
{
	if (a->count == a->capacity && !array_grow(a, each))
		return NULL;
	return (char *)a->list + a->count++ * each;
}

static void array_free(struct array *a, uint64_t each)
{
	if (a->list)
		sys_munmap(a->list, a->capacity * each);
}

/* Heap sort; it does nothing if the list is already sorted, as the tables of .eh_frame_hdr are. */
static void sort(uint64_t *v, uint64_t n)
{
	uint64_t i, start, end, t;

	for (i = 1; i < n && v[i - 1] <= v[i]; i++)
		;
	if (i >= n)
		return;
	for (start = n / 2, end = n; end > 1;) {
		uint64_t root, child;

		if (start) {
			start--;
		} else {
			end--;
			t = v[0], v[0] = v[end], v[end] = t;
		}
		for (root = start; (child = 2 * root + 1) < end; root = child) {
			if (child + 1 < end && v[child] < v[child + 1])
				child++;
			if (v[root] >= v[child])
				break;
			t = v[root], v[root] = v[child], v[child] = t;
		}
	}
}

/* ---- rows ------------------------------------------------------------------------ */

static uint32_t rule_id(struct table_builder *m, const struct etch_rule *r)
{
	struct ranked_rule *rules = m->rules.list, *new;
	uint64_t w[2];
	uint32_t at, probe, size = sizeof(m->slots) / sizeof(m->slots[0]);

	memcpy(w, r, sizeof(w));
	at = (uint32_t)(((w[0] ^ w[1] * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u) >> 32) % size;
	for (probe = 0; probe < 64 && m->slots[at]; probe++, at = (at + 1) % size)
		if (etch_rule_equal(&rules[m->slots[at] - 1].rule, r))
			return m->slots[at] - 1;
	if (m->rules.count >= UINT32_MAX / 2)
		return NO_ID;
	new = array_add(&m->rules, sizeof(*new));
	if (!new)
		return NO_ID;
	new->rule = *r;
	if (!m->slots[at])
		m->slots[at] = (uint32_t)m->rules.count;
	return (uint32_t)m->rules.count - 1;
}

static void row_add(struct table_builder *m, uint64_t at, const struct etch_rule *r)
{
	struct entry *rows = m->rows.list, *row;
	uint32_t id = rule_id(m, r);

	if (m->rows.count && rows[m->rows.count - 1].at == at)
		m->rows.count--;
	if (id != NO_ID && m->rows.count && rows[m->rows.count - 1].rule == id)
		return;
	row = id == NO_ID || m->rows.count >= UINT32_MAX / 2 ? NULL : array_add(&m->rows, sizeof(*row));
	if (!row) {
		m->failed = true;
		return;
	}
	row->at = (uint32_t)at;
	row->rule = id;
}

static void cfi_row(void *ctx, const struct etch_cfi_row *row)
{
	struct table_builder *m = ctx;
	uint64_t at = row->start - m->text;

	/* The first address of such an FDE may be a return address that was not pushed by a call; like any return
	 * address, it is looked up at the byte before. FDEs of signal frames start there for the same reason. */
	if (m->gap && row->rule.kind == ETCH_RULE_END)
		at--;
	m->gap = false;
	if (!m->failed)
		row_add(m, at, &row->rule);
}

static bool fde_add(struct table_builder *m, const struct etch_fde *fde)
{
	uint64_t at = fde->start - m->text, *new;

	if (at >= m->size || fde->end == fde->start || fde->at > UINT32_MAX)
		return true; /* skips this FDE only */
	new = array_add(&m->fdes, sizeof(*new));
	if (new)
		*new = at << 32 | fde->at;
	return new;
}

static bool fdes_find(struct table_builder *m, const struct etch_cfi_hdr *h)
{
	struct etch_fde fde;
	uint64_t i;

	for (i = 0; i < h->count; i++) {
		if (!etch_cfi_at(&m->cfi, etch_cfi_hdr_fde(h, i) - h->eh_frame, &fde))
			continue;
		m->cfi.cie = fde.cie;
		if (!fde_add(m, &fde))
			return false;
	}
	while (!h->count && etch_cfi_next(&m->cfi, &fde))
		if (!fde_add(m, &fde))
			return false;
	sort(m->fdes.list, m->fdes.count);
	return true;
}

/* As in tool/analysis/facts/cfi_file.c, the one of overlapping FDEs that starts last wins; of two with the same
 * start, the first one wins. */
static bool rows_make(struct table_builder *m, const struct prepare_image *im)
{
	const uint64_t *v = m->fdes.list;
	uint64_t i, next, covered = 0;

	for (i = 0; i < m->fdes.count && !m->failed; i = next) {
		uint64_t at = v[i] >> 32, limit = m->size;
		struct etch_fde fde;

		for (next = i + 1; next < m->fdes.count && v[next] >> 32 == at; next++)
			;
		if (next < m->fdes.count)
			limit = v[next] >> 32;
		if (!etch_cfi_at(&m->cfi, (uint32_t)v[i], &fde))
			continue;
		m->cfi.cie = fde.cie;
		m->gap = at > covered;
		if (m->gap)
			row_add(m, covered, &etch_rule_undef);
		if (m->gap && eh_discards_stack(im, fde.start))
			row_add(m, at - 1, &(struct etch_rule){.kind = ETCH_RULE_END});
		if (fde.end - m->text > limit)
			fde.end = m->text + limit;
		etch_cfi_rows(&fde, 0, cfi_row, m);
		covered = fde.end - m->text;
	}
	if (m->rows.count && covered < m->size)
		row_add(m, covered, &etch_rule_undef);
	return !m->failed && m->rows.count;
}

/* ---- the table ----------------------------------------------------------------------- */

/* Numbers the rules by descending frequency: in rows, or in granules of the map. For the map, only the rules that no
 * step expresses get a number. */
static void rules_rank(struct table_builder *m, bool of_map)
{
	struct ranked_rule *rules = m->rules.list;
	struct array order = {0}; /* uint64_t: rank << 32 | index */
	uint64_t i, *v;

	for (i = 0; i < m->rules.count; i++) {
		if (of_map && (!rules[i].map_uses || rules[i].map_code != ETCH_MAP_FULL))
			continue;
		v = array_add(&order, sizeof(*v));
		if (!v) {
			m->failed = true;
			break;
		}
		*v = (uint64_t)(UINT32_MAX - (of_map ? rules[i].map_uses : rules[i].uses)) << 32 | i;
	}
	v = order.list;
	sort(v, order.count);
	for (i = 0; i < order.count; i++) {
		struct ranked_rule *r = &rules[(uint32_t)v[i]];

		if (!of_map)
			r->code = (uint32_t)i;
		else if (i < ETCH_MAP_CODES - ETCH_MAP_STEPS)
			r->map_code = ETCH_MAP_STEPS + (uint32_t)i;
	}
	array_free(&order, sizeof(*v));
}

/* Numbers the rules, for the table and for the map. */
static void rules_number(struct table_builder *m)
{
	struct ranked_rule *rules = m->rules.list;
	const struct entry *rows = m->rows.list;
	struct etch_map_rule packed;
	uint64_t i;

	for (i = 0; i < m->rows.count; i++)
		rules[rows[i].rule].uses++;
	for (i = 0; i < m->granule_count; i++)
		if (m->granules[i] && m->granules[i] != MIXED)
			rules[m->granules[i] - 1].map_uses++;
	for (i = 0; i < m->rules.count; i++)
		rules[i].map_code =
			rules[i].map_uses && etch_map_rule_pack(&rules[i].rule, &packed) ? etch_map_step(&packed) : ETCH_MAP_FULL;
	rules_rank(m, false);
	rules_rank(m, true);
}

/* Is this rule in the map's palette? */
static bool in_map_palette(const struct ranked_rule *r)
{
	return r->map_code >= ETCH_MAP_STEPS && r->map_code != ETCH_MAP_FULL;
}

/* Reserves `bytes` bytes at the next multiple of 4 from *end on, and returns their offset. */
static uint32_t place(uint64_t *end, uint64_t bytes)
{
	uint64_t at = (*end + 3) & ~(uint64_t)3;

	*end = at + bytes;
	return (uint32_t)at;
}

static void idx_put(uint8_t *pool, uint32_t at, uint32_t code, struct etch_escape **escape)
{
	pool[at] = (uint8_t)(code < ETCH_IDX_ESCAPE ? code : ETCH_IDX_ESCAPE);
	if (code >= ETCH_IDX_ESCAPE)
		*(*escape)++ = (struct etch_escape){at, code};
}

static void records_write(const struct table_builder *m, struct etch_unwind *u)
{
	const struct ranked_rule *rules = m->rules.list;
	const struct entry *rows = m->rows.list;
	uint64_t blocks = (m->size + 255) >> ETCH_BLOCK_SHIFT, b, row = 1, end, i;
	uint32_t *base = (void *)((char *)u + u->base), at = 0;
	uint16_t *hd = (void *)((char *)u + u->hd);
	struct etch_escape *escape = (void *)((char *)u + u->escape);
	uint8_t *pool = (uint8_t *)u + u->pool;

	idx_put(pool, at++, rules[rows[0].rule].code, &escape);
	for (b = 0; b <= blocks; b++) {
		if (!(b & ((1u << ETCH_GROUP_SHIFT) - 1)))
			base[b >> ETCH_GROUP_SHIFT] = at;
		hd[b] = (uint16_t)(at - base[b >> ETCH_GROUP_SHIFT]);
		for (end = row; end < m->rows.count && rows[end].at >> ETCH_BLOCK_SHIFT == b; end++)
			pool[at++] = (uint8_t)rows[end].at;
		for (i = row; i < end; i++)
			idx_put(pool, at++, rules[rows[i].rule].code, &escape);
		row = end;
	}
}

/* Writes the map byte of each granule. */
static void map_write(const struct table_builder *m, struct etch_unwind *u)
{
	const struct ranked_rule *rules = m->rules.list;
	uint8_t *map = (uint8_t *)u + u->map;
	uint64_t i;

	for (i = 0; i < m->granule_count; i++) {
		uint32_t g = m->granules[i];

		map[i] = (uint8_t)(g && g != MIXED ? rules[g - 1].map_code : ETCH_MAP_FULL);
	}
	u->map_rbp = etch_map_rbp(map, m->granule_count);
}

/* Lays out and fills the block table from the collected rows; *size gets its size in bytes. Null if there is no
 * memory, or it is too large. */
static struct etch_unwind *table_make(struct table_builder *m, uint64_t *size)
{
	uint64_t end = sizeof(struct etch_unwind), blocks = (m->size + 255) >> ETCH_BLOCK_SHIFT, rows = m->rows.count, i;
	const struct ranked_rule *rules = m->rules.list;
	struct etch_unwind u, *out;
	struct etch_map_rule *map_palette;
	struct etch_rule *palette;

	memset(&u, 0, sizeof(u));
	rules_number(m);
	for (i = 0; i < m->rules.count; i++) {
		if (rules[i].code >= ETCH_IDX_ESCAPE)
			u.escape_count += rules[i].uses;
		u.map_palette_count += m->granules && in_map_palette(&rules[i]);
	}
	u.magic = ETCH_UNWIND_MAGIC;
	u.version = ETCH_UNWIND_VERSION_STEPS;
	u.size = sizeof(u);
	u.encoding = ETCH_ENCODING_BLOCK;
	u.rows = (uint32_t)rows;
	u.text = m->text;
	u.text_size = m->size;
	u.base = place(&end, ((blocks >> ETCH_GROUP_SHIFT) + 1) * 4);
	u.hd = place(&end, (blocks + 1) * 2);
	u.palette = place(&end, m->rules.count * sizeof(struct etch_rule));
	u.palette_count = (uint32_t)m->rules.count;
	u.escape = place(&end, u.escape_count * sizeof(struct etch_escape));
	if (m->granules) {
		u.map_shift = MAP_SHIFT;
		u.map_first = ETCH_MAP_STEPS;
		u.map_palette = place(&end, u.map_palette_count * sizeof(struct etch_map_rule));
		u.map_page_count = (uint32_t)((m->granule_count - 1) >> etch_map_page_shift(MAP_SHIFT)) + 1;
		u.map_page = place(&end, u.map_page_count * 4); /* zeroed: no exception units */
		u.map = place(&end, m->granule_count);
		u.map_unit = place(&end, 0);
	}
	u.pool_size = (uint32_t)(1 + 2 * (rows - 1) + ETCH_POOL_TAIL);
	u.pool = place(&end, u.pool_size);
	u.bytes = end = (end + 7) & ~(uint64_t)7;
	out = m->failed || end > UINT32_MAX ? NULL : sys_map(end, 0);
	if (!out)
		return NULL;
	*out = u;
	palette = (void *)((char *)out + u.palette);
	map_palette = (void *)((char *)out + u.map_palette);
	for (i = 0; i < m->rules.count; i++) {
		palette[rules[i].code] = rules[i].rule;
		if (m->granules && in_map_palette(&rules[i]))
			etch_map_rule_pack(&rules[i].rule, &map_palette[rules[i].map_code - ETCH_MAP_STEPS]);
	}
	if (!m->granules)
		out->version = etch_rules_version(palette, out->palette_count);
	records_write(m, out);
	if (m->granules)
		map_write(m, out);
	sys_mprotect((uint64_t)out, end, PROT_READ);
	*size = end;
	return out;
}

/* ---- a module --------------------------------------------------------------------------- */

const struct etch_unwind *prepare_table(const struct prepare_image *im, uint64_t *size)
{
	uint64_t lo, hi;
	struct etch_unwind *table = NULL;
	struct etch_cfi_hdr h;
	struct etch_cfi cfi;
	struct table_builder *m;

	*size = 0;
	if (!eh_text(im, &lo, &hi) || !eh_frame_open(im, &h, &cfi))
		return NULL;
	m = sys_map(sizeof(*m), 0);
	if (!m)
		return NULL;
	m->text = lo;
	m->size = hi - lo;
	m->cfi = cfi;
	if (fdes_find(m, &h) && rows_make(m, im)) {
		prepare_map(m, im);
		table = table_make(m, size);
	}
	if (m->granules)
		sys_munmap(m->granules, m->granule_count * sizeof(*m->granules));
	array_free(&m->fdes, sizeof(uint64_t));
	array_free(&m->rows, sizeof(struct entry));
	array_free(&m->rules, sizeof(struct ranked_rule));
	sys_munmap(m, sizeof(*m));
	return table;
}

void prepare_table_free(const struct etch_unwind *t, uint64_t size) { sys_munmap((void *)t, size); }
