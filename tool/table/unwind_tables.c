/* SPDX-License-Identifier: MIT */
/*
 * The block table (etch/orc.h) from rows and back.
 */
#include "table/unwind_tables.h"
#include "elf/memory.h"

#include <stdlib.h>
#include <string.h>

#include <etch/orc_lookup.h>

#include "arch/x86/stack.h"
#include "table/unwind_runs.h"

static int no_memory(struct error *e)
{
	return error_set(e, "out of memory");
}

void row_list_free(struct row_list *l)
{
	free(l->rows);
	memset(l, 0, sizeof(*l));
}

/* ---- canonical rows --------------------------------------------------------------- */

static bool is_padding(const struct code_space *space, struct step_cache *cache, uint64_t from, uint64_t to)
{
	while (from < to) {
		const struct code_section *s = space_at(space, from);
		const uint8_t *p;
		struct step insn;
		uint64_t left;

		if (!s) { /* between sections */
			from++;
			continue;
		}
		p = s->bytes + (from - s->addr);
		left = s->addr + s->size < to ? s->addr + s->size - from : to - from;
		if (!*p) { /* linkers fill with zeros too; two of them would be an instruction that nobody writes */
			from++;
			continue;
		}
		if (!step_decode(cache, p, left, from, &insn) || !insn.padding)
			return false;
		from += insn.len;
	}
	return true;
}

/*
 * Code that is returned to without having called: the kernel pushes the address of a
 * signal's restorer, makecontext(3) that of the code behind the context's function. A
 * walk looks such an address up by the byte before it, which therefore gets the row too,
 * where it is nobody's. CFI does the same for restorers: their FDEs begin a byte early.
 */
static bool is_entered_by_return(const struct row *r)
{
	return r->rule.kind == ETCH_RULE_SIGNAL || r->rule.kind == ETCH_RULE_END;
}

/* Is there a gap before row i that holds nothing but padding? */
static bool is_padding_before(const struct row_list *l, size_t i, const struct code_space *space,
                              struct step_cache *cache)
{
	uint64_t from;

	if (!i || l->rows[i - 1].rule.kind != ETCH_RULE_UNDEF)
		return false;
	if (!space_at(space, l->rows[i].addr - 1))
		return true;
	from = l->rows[i - 1].addr;
	return l->rows[i].addr - from <= 256 && is_padding(space, cache, from, l->rows[i].addr);
}

int unwind_rows_canonical(const struct row_list *in, const struct code_space *space, struct row_list *out,
                          struct error *e)
{
	struct step_cache *cache;
	size_t i, n = 0;

	memset(out, 0, sizeof(*out));
	out->room = in->count + 1;
	out->rows = big_alloc(out->room * sizeof(*out->rows));
	if (!out->rows)
		return no_memory(e);
	cache = step_cache_new(); /* without one it works too */
	if (in->count && (in->rows[0].addr & 255))
		out->rows[n++] = (struct row){ .addr = in->rows[0].addr & ~255ull };
	for (i = 0; i < in->count; i++) {
		const struct row *r = &in->rows[i];
		struct row *last = n ? &out->rows[n - 1] : NULL;
		bool end = i + 1 == in->count; /* stays, whatever is before it */

		if (!end && last && r->rule.kind == ETCH_RULE_UNDEF && last->rule.kind != ETCH_RULE_UNDEF) {
			size_t next = i + 1;

			while (next + 1 < in->count && in->rows[next].rule.kind == ETCH_RULE_UNDEF)
				next++;
			if (space && in->rows[next].addr - r->addr < UNWIND_PADDING &&
			    is_padding(space, cache, r->addr, in->rows[next].addr)) {
				i = next - 1;
				continue;
			}
		}
		if (!end && last && etch_rule_equal(&last->rule, &r->rule) &&
		    (last->source == r->source || r->rule.kind == ETCH_RULE_UNDEF))
			continue;
		out->rows[n++] = *r;
		if (!end && last && is_entered_by_return(r) && space && is_padding_before(in, i, space, cache)) {
			if (last->addr == r->addr - 1)
				n--; /* the whole gap */
			out->rows[n - 1] = *r;
			out->rows[n - 1].addr--;
		}
	}
	step_cache_free(cache);
	out->count = n;
	return 0;
}

/* ---- the palette ---------------------------------------------------------------------- */

struct palette {
	struct etch_rule *list;
	uint32_t *uses;
	uint32_t count, room;
	uint32_t *slots; /* open addressing; 0 empty, else index + 1 */
	uint32_t mask;
};

static void palette_free(struct palette *p)
{
	free(p->list);
	free(p->uses);
	free(p->slots);
}

static uint32_t rule_hash(const struct etch_rule *r)
{
	uint64_t w[2];

	memcpy(w, r, sizeof(w));
	w[0] = (w[0] ^ w[1] * 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
	return (uint32_t)(w[0] >> 32);
}

static int palette_grow(struct palette *p)
{
	uint32_t room = p->room ? 2 * p->room : 512, mask = 4 * room - 1, i;
	struct etch_rule *list = realloc(p->list, room * sizeof(*list));
	uint32_t *uses, *slots;

	if (list)
		p->list = list;
	uses = realloc(p->uses, room * sizeof(*uses));
	if (uses)
		p->uses = uses;
	slots = calloc(mask + 1, sizeof(*slots));
	if (!list || !uses || !slots) {
		free(slots);
		return -1;
	}
	for (i = 0; i < p->count; i++) {
		uint32_t at = rule_hash(&list[i]) & mask;

		while (slots[at])
			at = (at + 1) & mask;
		slots[at] = i + 1;
	}
	free(p->slots);
	p->slots = slots;
	p->mask = mask;
	p->room = room;
	return 0;
}

/* The number of a rule; -1: out of memory. */
static int64_t palette_add(struct palette *p, const struct etch_rule *r)
{
	uint32_t at;

	if (p->count == p->room && palette_grow(p))
		return -1;
	for (at = rule_hash(r) & p->mask; p->slots[at]; at = (at + 1) & p->mask)
		if (etch_rule_equal(&p->list[p->slots[at] - 1], r)) {
			p->uses[p->slots[at] - 1]++;
			return p->slots[at] - 1;
		}
	p->list[p->count] = *r;
	p->uses[p->count] = 1;
	p->slots[at] = p->count + 1;
	return p->count++;
}

struct ranked {
	struct etch_rule rule;
	uint32_t uses, was;
};

/* The most frequent first; ties by bytes, so that the result follows from the rows alone. */
static int ranked_compare(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->uses != y->uses)
		return x->uses < y->uses ? 1 : -1;
	return memcmp(&x->rule, &y->rule, sizeof(x->rule));
}

/* Sorts the palette; *order[i] is the new number of what was i. */
static int palette_sort(struct palette *p, uint32_t **order)
{
	struct ranked *r = malloc((p->count + 1) * sizeof(*r));
	uint32_t i;

	*order = malloc((p->count + 1) * sizeof(**order));
	if (!r || !*order) {
		free(r);
		return -1;
	}
	for (i = 0; i < p->count; i++)
		r[i] = (struct ranked){ p->list[i], p->uses[i], i };
	qsort(r, p->count, sizeof(*r), ranked_compare);
	for (i = 0; i < p->count; i++) {
		p->list[i] = r[i].rule;
		p->uses[i] = r[i].uses;
		(*order)[r[i].was] = i;
	}
	free(r);
	return 0;
}

/* ---- rows, checked and numbered ----------------------------------------------------------- */

/* What both halves of the encoder work on: rows from `text` on, without the last one. */
struct numbered {
	const struct row *rows;
	size_t count;
	uint32_t *rule;    /* of each row, in the palette */
	uint32_t before;   /* rule of what lies before the first row, in its block */
	bool lead;         /* there is something before it */
	size_t first;      /* row that the records begin with: what is before it is the byte before them */
	uint64_t text, size;
	struct palette palette; /* the most frequent rule first, but all of runs before those */
	uint32_t direct;        /* rules below have an idx byte */
	struct unwind_runs runs; /* of_row counts from `first` */
};

/* Rows that the entry at row i stands for; *run is its run, or null. */
static size_t entry_rows(const struct numbered *n, size_t i, const struct unwind_run **run)
{
	uint8_t number = n->runs.of_row[i - n->first];

	*run = number ? &n->runs.list[number - 1] : NULL;
	return number ? (*run)->n : 1;
}

static void numbered_free(struct numbered *n)
{
	free(n->rule);
	palette_free(&n->palette);
	unwind_runs_free(&n->runs);
}

/* Chooses runs, and gives rules their final numbers. */
static int numbered_sort(struct numbered *n)
{
	const struct unwind_run *run;
	uint32_t *order, k;
	size_t i;

	if (unwind_runs_find(n->rows + n->first, n->count - n->first, n->rule + n->first, n->palette.count, &n->runs))
		return -1;
	memset(n->palette.uses, 0, n->palette.count * sizeof(*n->palette.uses));
	for (i = n->first; i < n->count; i += entry_rows(n, i, &run))
		if (!n->runs.of_row[i - n->first])
			n->palette.uses[n->rule[i]]++;
	for (k = 0; k < n->runs.count; k++)
		for (i = 0; i < n->runs.list[k].n; i++)
			n->palette.uses[n->runs.list[k].rule[i]] |= 1u << 31; /* must have an idx byte */
	if (palette_sort(&n->palette, &order))
		return -1;
	for (i = 0; i < n->count; i++)
		n->rule[i] = order[n->rule[i]];
	for (k = 0; k < n->runs.count; k++)
		for (i = 0; i < n->runs.list[k].n; i++)
			n->runs.list[k].rule[i] = order[n->runs.list[k].rule[i]];
	n->before = order[n->before];
	n->direct = ETCH_IDX_ESCAPE - n->runs.count;
	free(order);
	return 0;
}

static int numbered_make(const struct row_list *l, struct numbered *n, struct error *e)
{
	int64_t id;
	size_t i;

	memset(n, 0, sizeof(*n));
	n->rows = l->rows;
	n->count = l->count ? l->count - 1 : 0;
	if (l->count) {
		n->text = l->rows[0].addr & ~255ull;
		n->size = l->rows[n->count].addr - n->text;
		if (l->rows[n->count].rule.kind != ETCH_RULE_UNDEF)
			return error_set(e, "unwind rows: the last row at 0x%llx is not the end of the text",
			                 (unsigned long long)l->rows[n->count].addr);
	}
	for (i = 0; i < l->count; i++)
		if ((i && l->rows[i].addr <= l->rows[i - 1].addr) || !etch_rule_valid(&l->rows[i].rule))
			return error_set(e, "unwind rows: the row at 0x%llx is out of order or malformed",
			                 (unsigned long long)l->rows[i].addr);
	if (n->size > UINT32_MAX || n->count >= UINT32_MAX / 2)
		return error_set(e, "the text spans 0x%llx bytes; an unwind table covers at most 4 GiB",
		                 (unsigned long long)n->size);

	n->rule = malloc((n->count + 1) * sizeof(*n->rule));
	if (!n->rule)
		goto memory;
	n->lead = !n->count || n->rows[0].addr != n->text;
	if (n->lead) {
		id = palette_add(&n->palette, &etch_rule_undef);
		if (id < 0)
			goto memory;
		n->before = (uint32_t)id;
	}
	n->first = !n->lead;
	for (i = 0; i < n->count; i++) {
		id = palette_add(&n->palette, &n->rows[i].rule);
		if (id < 0)
			goto memory;
		n->rule[i] = (uint32_t)id;
	}
	if (n->first)
		n->before = n->rule[0];
	if (!numbered_sort(n))
		return 0;
memory:
	numbered_free(n);
	return no_memory(e);
}

/* ---- the return-address map ------------------------------------------------------------------ */

#define NO_RULE UINT32_MAX

/* Candidates of one granule that have the same rule. */
struct run {
	uint32_t granule;
	uint32_t rule;  /* in the palette of rows; NO_RULE: one that only the full table can tell */
	uint32_t split; /* offset in the granule of the first address that may be its */
};

struct map {
	unsigned shift;
	uint8_t *bytes;
	uint64_t granules;
	uint32_t *page;
	uint32_t pages;
	uint8_t *unit;
	uint32_t units;
	struct etch_map_rule *palette;
	uint32_t palette_count;
	uint32_t rbp; /* first rule of the palette that counts from rbp */
};

static void map_free(struct map *m)
{
	free(m->bytes);
	free(m->page);
	free(m->unit);
	free(m->palette);
}

static int64_t runs_make(const struct numbered *n, const uint64_t *calls, size_t call_count, unsigned shift,
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
		/* The rule changes behind the row's first byte: a return address is looked up by
		 * the byte before it. */
		start = n->rows[row].addr + 1 - n->text;
		r.split = start >> shift == r.granule ? (uint32_t)(start & ((1u << shift) - 1)) : 0;
		runs[count++] = r;
	}
	return (int64_t)count;
}

/* Frequency of a rule among runs, for choosing the map's palette. */
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

/* code[rule]: its number in the map, or ETCH_MAP_FULL. */
static int map_palette_make(const struct numbered *n, const struct run *runs, size_t run_count, struct map *m,
                            uint8_t *code)
{
	uint32_t rules = n->palette.count, i, reg;
	struct use *use = calloc(rules + 1, sizeof(*use));
	size_t r;

	m->palette = calloc(ETCH_MAP_CODES, sizeof(*m->palette));
	if (!use || !m->palette) {
		free(use);
		return -1;
	}
	for (i = 0; i < rules; i++)
		use[i].rule = i;
	for (r = 0; r < run_count; r++)
		if (runs[r].rule != NO_RULE)
			use[runs[r].rule].count++;
	qsort(use, rules, sizeof(*use), use_compare);
	memset(code, ETCH_MAP_FULL, rules);
	/* Those that count from rsp first: the map byte then tells which register it is. */
	for (reg = ETCH_REG_RSP; reg <= ETCH_REG_RBP; reg++) {
		m->rbp = m->palette_count;
		for (i = 0; i < rules && i < ETCH_MAP_CODES && use[i].count; i++) {
			const struct etch_rule *rule = &n->palette.list[use[i].rule];

			if (rule->cfa != reg)
				continue;
			code[use[i].rule] = (uint8_t)m->palette_count;
			etch_map_rule_pack(rule, &m->palette[m->palette_count++]);
		}
	}
	free(use);
	return 0;
}

/* Granules in reach of a row that is entered by a return use the full table. */
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

/* Exception units of a granule's runs, at most ETCH_MAP_CHAIN; returns the map byte. */
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

static int map_make(const struct numbered *n, const uint64_t *calls, size_t call_count, unsigned shift, struct map *m,
                    struct error *e)
{
	unsigned page_shift = etch_map_page_shift(shift);
	struct run *runs = malloc((call_count + 1) * sizeof(*runs));
	uint8_t *code = malloc(n->palette.count + 1);
	size_t r = 0, end, entered = 0;
	int64_t count;
	uint64_t page;

	m->shift = shift;
	m->granules = (n->size >> shift) + 1;
	m->pages = (uint32_t)((m->granules - 1) >> page_shift) + 1;
	m->bytes = malloc(m->granules);
	m->page = malloc(m->pages * sizeof(*m->page));
	count = runs ? runs_make(n, calls, call_count, shift, runs) : -1;
	m->unit = malloc((size_t)(count < 0 ? 0 : count) * ETCH_UNIT_SIZE + 1);
	if (!runs || !code || !m->bytes || !m->page || !m->unit || map_palette_make(n, runs, (size_t)count, m, code)) {
		free(runs);
		free(code);
		return no_memory(e);
	}

	/* Where there is no candidate the full table is right for whatever comes. */
	memset(m->bytes, ETCH_MAP_FULL, m->granules);
	for (page = 0; page < m->pages; page++) {
		m->page[page] = m->units;
		for (; r < (size_t)count && runs[r].granule >> page_shift == page; r = end) {
			for (end = r + 1; end < (size_t)count && runs[end].granule == runs[r].granule; end++)
				;
			if (!near_entered_by_return(n, &entered, runs[r].granule, shift))
				m->bytes[runs[r].granule] = granule_encode(m, runs + r, end - r, code, m->page[page]);
		}
	}
	free(runs);
	free(code);
	return 0;
}

/* ---- the table ---------------------------------------------------------------------------------- */

static uint64_t place(uint64_t *end, uint64_t bytes, unsigned align)
{
	uint64_t at = (*end + align - 1) & ~(uint64_t)(align - 1);

	*end = at + bytes;
	return at;
}

/* Gives every array its place; -1 when that would be over 4 GiB. */
static int layout_make(const struct numbered *n, const struct map *m, uint32_t escapes, struct etch_unwind *u)
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
	u->version = etch_rules_version(n->palette.list, n->palette.count);
	u->size = sizeof(*u);
	u->bytes = end;
	u->encoding = ETCH_ENCODING_BLOCK;
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
		u->map_rbp = m->rbp;
		u->map_page = (uint32_t)at[5];
		u->map_page_count = m->pages;
		u->map = (uint32_t)at[6];
		u->map_unit = (uint32_t)at[7];
		u->map_unit_count = m->units;
	}
	return 0;
}

/* The idx byte of a rule at `at`, with an escape where it needs one. */
static void idx_put(const struct numbered *n, uint8_t *pool, uint32_t at, uint32_t rule, struct etch_escape **escape)
{
	pool[at] = (uint8_t)(rule < n->direct ? rule : ETCH_IDX_ESCAPE);
	if (rule >= n->direct)
		*(*escape)++ = (struct etch_escape){ at, rule };
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

static int table_make(const struct numbered *n, const struct map *m, uint8_t **out, size_t *size, struct error *e)
{
	uint32_t escapes = n->before >= n->direct;
	const struct unwind_run *run;
	struct etch_unwind u;
	size_t i;

	for (i = n->first; i < n->count; i += entry_rows(n, i, &run))
		escapes += !n->runs.of_row[i - n->first] && n->rule[i] >= n->direct;
	if (layout_make(n, m, escapes, &u))
		return error_set(e, "the unwind table would be larger than 4 GiB");
	*out = calloc(1, u.bytes);
	if (!*out)
		return no_memory(e);
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

int unwind_block_encode(const struct row_list *rows, const uint64_t *calls, size_t call_count, unsigned map_shift,
                        uint8_t **out, size_t *size, struct error *e)
{
	struct map map = { 0 };
	struct numbered n;
	int status = 0;

	*out = NULL;
	*size = 0;
	if (numbered_make(rows, &n, e))
		return -1;
	if (map_shift)
		status = map_make(&n, calls, call_count, map_shift, &map, e);
	if (!status)
		status = table_make(&n, &map, out, size, e);
	map_free(&map);
	numbered_free(&n);
	return status;
}

int unwind_sources_encode(const struct row_list *rows, uint8_t **out, size_t *size, struct error *e)
{
	size_t count = rows->count ? rows->count - 1 : 0, i;
	size_t lead = !count || (rows->rows[0].addr & 255); /* as in numbered_make() */

	*size = (count + lead + 3) / 4;
	*out = calloc(1, *size);
	if (!*out)
		return no_memory(e);
	for (i = 0; i < count; i++)
		(*out)[(i + lead) / 4] |= (uint8_t)((rows->rows[i].source & 3u) << ((i + lead) % 4 * 2));
	return 0;
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
	if (size < sizeof(*u) || u->encoding != ETCH_ENCODING_BLOCK)
		return error_set(e, "not a block table");
	etch_block_open(u, &t);
	blocks = (u->text_size + 255) >> ETCH_BLOCK_SHIFT;
	out->room = (size_t)u->rows + 1;
	out->rows = malloc(out->room * sizeof(*out->rows));
	if (!out->rows)
		return no_memory(e);
	out->rows[n++] = (struct row){ .addr = u->text, .rule = *etch_block_rule(&t, 0, 0) };
	for (b = 0; b < blocks; b++) {
		uint32_t s = etch_block_record(&t, b), c = (etch_block_record(&t, b + 1) - s) / 2, k;

		for (i = 0; i < c; i++) {
			uint32_t idx = t.pool[s + c + i], more = 1;
			uint64_t addr = u->text + (b << ETCH_BLOCK_SHIFT) + t.pool[s + i];
			const uint8_t *off = (const uint8_t[]){ 0 };

			if (idx >= t.first_run && idx != ETCH_IDX_ESCAPE) {
				off = t.run[idx - t.first_run].off;
				more = etch_run_rows(&t, idx - t.first_run);
			}
			for (k = 0; k < more && n < u->rows; k++)
				out->rows[n++] = (struct row){ .addr = addr + off[k],
				                               .rule = *etch_block_rule(&t, s + c + (uint32_t)i, off[k]) };
		}
	}
	if (sources)
		for (i = 0; i < n && i / 4 < sources_size; i++)
			out->rows[i].source = sources[i / 4] >> (i % 4 * 2) & 3;
	/* An empty text has a byte before its records and no row. */
	if (!u->text_size)
		n = 0;
	out->rows[n++] = (struct row){ .addr = u->text + u->text_size };
	out->count = n;
	return 0;
}
