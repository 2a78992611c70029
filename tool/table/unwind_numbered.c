/* SPDX-License-Identifier: MIT */
/* Checks the rows of a block table and numbers their rules, so that the most frequent ones come first. */
#include "table/unwind_encoder.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

#include <etch/orc_registers.h>

/* ---- the palette ---------------------------------------------------------------------- */

static void palette_free(struct palette *p)
{
	free(p->list);
	free(p->uses);
	hash_index_free(&p->index);
}

static uint32_t rule_hash(const struct etch_rule *r)
{
	uint64_t w[2];

	memcpy(w, r, sizeof(w));
	w[0] = (w[0] ^ w[1] * 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
	return (uint32_t)(w[0] >> 32);
}

static void palette_grow(struct palette *p)
{
	p->capacity = p->capacity ? 2 * p->capacity : 512;
	p->list = mem_resize(p->list, p->capacity, sizeof(*p->list));
	p->uses = mem_resize(p->uses, p->capacity, sizeof(*p->uses));
}

/* Returns the index of a rule, and counts a use of it. Adds the rule if it is new. */
static uint32_t palette_add(struct palette *p, const struct etch_rule *r)
{
	uint32_t hash = rule_hash(r), i;
	size_t at;

	for (at = hash; (i = hash_index_next(&p->index, hash, &at)) != HASH_INDEX_NONE;)
		if (etch_rule_equal(&p->list[i], r)) {
			p->uses[i]++;
			return i;
		}
	if (p->count == p->capacity)
		palette_grow(p);
	hash_index_add(&p->index, hash, p->count);
	p->list[p->count] = *r;
	p->uses[p->count] = 1;
	return p->count++;
}

/* A rule of the palette, while it is sorted; `was` is its old index. */
struct ranked {
	struct etch_rule rule;
	uint32_t uses, was;
};

/* Sorts by descending use, then by bytes, so that the result depends only on the rows. */
static int ranked_compare(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->uses != y->uses)
		return x->uses < y->uses ? 1 : -1;
	return memcmp(&x->rule, &y->rule, sizeof(x->rule));
}

/* Sorts the palette. Returns an array with the new index of each old one, which the caller frees. */
static uint32_t *palette_sort(struct palette *p)
{
	struct ranked *r = mem_alloc(p->count, sizeof(*r));
	uint32_t *order = mem_alloc(p->count, sizeof(*order)), i;

	for (i = 0; i < p->count; i++)
		r[i] = (struct ranked){p->list[i], p->uses[i], i};
	qsort(r, p->count, sizeof(*r), ranked_compare);
	for (i = 0; i < p->count; i++) {
		p->list[i] = r[i].rule;
		p->uses[i] = r[i].uses;
		order[r[i].was] = i;
	}
	free(r);
	return order;
}

/* ---- rows, checked and numbered ----------------------------------------------------------- */

void numbered_free(struct numbered *n)
{
	free(n->rule);
	palette_free(&n->palette);
	unwind_runs_free(&n->runs);
}

/* Chooses runs, and gives the rules their final indexes. */
static void numbered_sort(struct numbered *n)
{
	const struct unwind_run *run;
	uint32_t *order, k;
	size_t i;

	unwind_runs_find(n->rows + n->first, n->count - n->first, n->rule + n->first, n->palette.count, &n->runs);
	memset(n->palette.uses, 0, n->palette.count * sizeof(*n->palette.uses));
	for (i = n->first; i < n->count; i += entry_rows(n, i, &run))
		if (!n->runs.of_row[i - n->first])
			n->palette.uses[n->rule[i]]++;
	for (k = 0; k < n->runs.count; k++)
		for (i = 0; i < n->runs.list[k].n; i++)
			/* this makes it sort first, because a rule of a run must have an idx byte */
			n->palette.uses[n->runs.list[k].rule[i]] |= 1u << 31;
	order = palette_sort(&n->palette);
	for (i = 0; i < n->count; i++)
		n->rule[i] = order[n->rule[i]];
	for (k = 0; k < n->runs.count; k++)
		for (i = 0; i < n->runs.list[k].n; i++)
			n->runs.list[k].rule[i] = order[n->runs.list[k].rule[i]];
	n->before = order[n->before];
	n->direct = ETCH_IDX_ESCAPE - n->runs.count;
	free(order);
}

static bool is_valid(const struct etch_rule *r, unsigned encoding)
{
	struct etch_saves s;

	if (encoding != ETCH_ENCODING_REGISTERS)
		return etch_rule_valid(r);
	memcpy(&s, r, sizeof(s));
	return etch_saves_valid(&s);
}

int numbered_make(const struct row_list *l, unsigned encoding, struct numbered *n, struct error *e)
{
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
		if ((i && l->rows[i].addr <= l->rows[i - 1].addr) || !is_valid(&l->rows[i].rule, encoding))
			return error_set(e, "unwind rows: the row at 0x%llx is out of order or malformed",
			                 (unsigned long long)l->rows[i].addr);
	if (n->size > UINT32_MAX || n->count >= UINT32_MAX / 2)
		return error_set(e, "the text spans 0x%llx bytes; an unwind table covers at most 4 GiB",
		                 (unsigned long long)n->size);

	n->rule = mem_alloc(n->count, sizeof(*n->rule));
	n->lead = !n->count || n->rows[0].addr != n->text;
	if (n->lead)
		n->before = palette_add(&n->palette, &etch_rule_undef);
	n->first = !n->lead;
	for (i = 0; i < n->count; i++)
		n->rule[i] = palette_add(&n->palette, &n->rows[i].rule);
	if (n->first)
		n->before = n->rule[0];
	numbered_sort(n);
	return 0;
}
