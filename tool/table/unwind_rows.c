/* SPDX-License-Identifier: MIT */
/* Reduces rows to the fewest that a block table needs. If code is far apart, chooses the rows that the table holds. */
#include "table/unwind_encoder.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

#include <etch/orc_rule.h>

#include "arch/x86/fast_decoder.h"

void row_list_free(struct row_list *l)
{
	free(l->rows);
	memset(l, 0, sizeof(*l));
}

/* Does [from, to) contain nothing but padding instructions, zeros, and gaps between sections? */
static bool is_padding(const struct code_space *space, struct step_cache *cache, uint64_t from, uint64_t to)
{
	while (from < to) {
		const struct code_section *s = space_at(space, from);
		const uint8_t *p;
		struct step insn;
		uint64_t left, readable;

		if (!s) { /* a gap between sections */
			from++;
			continue;
		}
		p = s->bytes + (from - s->addr);
		readable = s->addr + s->size - from;
		left = readable < to - from ? readable : to - from;
		if (!*p) { /* linkers also fill gaps with zeros; 00 00 is an instruction, but no compiler emits it */
			from++;
			continue;
		}
		if (!step_decode_in(cache, p, left, readable, from, &insn) || !insn.padding)
			return false;
		from += insn.len;
	}
	return true;
}

/* Does row i follow a gap that contains nothing but padding? */
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

/* If row i begins a gap of less than UNWIND_PADDING bytes that contains only padding, returns the index of the row that
 * ends it; otherwise i. Row i is not the last one. */
static size_t padding_end(const struct row_list *in, size_t i, const struct code_space *space, struct step_cache *cache)
{
	uint64_t from = in->rows[i].addr;
	size_t next = i + 1;

	while (next + 1 < in->count && in->rows[next].rule.kind == ETCH_RULE_UNDEF)
		next++;
	if (!space || in->rows[next].addr - from >= UNWIND_PADDING || !is_padding(space, cache, from, in->rows[next].addr))
		return i;
	return next;
}

/* Should two adjacent rows be merged? */
static bool is_same(const struct row *a, const struct row *b)
{
	return etch_rule_equal(&a->rule, &b->rule) && (a->source == b->source || b->rule.kind == ETCH_RULE_UNDEF);
}

void unwind_rows_canonical(const struct row_list *in, const struct code_space *space, struct row_list *out)
{
	struct step_cache *cache;
	size_t i, n = 0;

	memset(out, 0, sizeof(*out));
	out->capacity = in->count + 1;
	out->rows = big_alloc(out->capacity * sizeof(*out->rows));
	cache = step_cache_new();
	if (in->count && (in->rows[0].addr & 255))
		out->rows[n++] = (struct row){.addr = in->rows[0].addr & ~255ull};
	for (i = 0; i < in->count; i++) {
		const struct row *r = &in->rows[i];
		struct row *last = n ? &out->rows[n - 1] : NULL;
		bool end = i + 1 == in->count; /* the last row is always kept */

		if (!end && last && r->rule.kind == ETCH_RULE_UNDEF && last->rule.kind != ETCH_RULE_UNDEF) {
			size_t next = padding_end(in, i, space, cache);

			if (next > i) {
				i = next - 1;
				continue;
			}
		}
		if (!end && last && is_same(last, r))
			continue;
		out->rows[n++] = *r;
		if (!end && last && is_entered_by_return(r) && space && is_padding_before(in, i, space, cache)) {
			if (last->addr == r->addr - 1)
				n--; /* the gap has only one byte, so its row is replaced */
			out->rows[n - 1] = *r;
			out->rows[n - 1].addr--;
		}
	}
	step_cache_free(cache);
	out->count = n;
}

/* ---- code that is far apart ----------------------------------------------------- */

/* A shorter gap does not separate code, since linkers align segments to 2 MB at most. This also bounds the time that
 * rows_near() takes for any file: few other clusters are within GAPS_MOST() of a cluster. */
#define GAP_LEAST ((uint64_t)2 << 20)
/* Most bytes that gaps may span: 4 MB plus 8 times the size of the code. A table takes a fourth of a byte per byte of
 * code for the latter. */
#define GAPS_MOST(code) (((uint64_t)4 << 20) + 8 * (code))

/* The rows from `first` up to `end`. The row `end` is UNDEF, and begins a gap or ends the list. */
struct cluster {
	size_t first, end;
	uint64_t code; /* number of bytes with a rule */
};

static bool is_undefined(const struct row *r) { return r->rule.kind == ETCH_RULE_UNDEF; }

/* Finds the next cluster, from row `from` on. Returns false if there is none. */
static bool cluster_next(const struct row_list *l, size_t from, struct cluster *out)
{
	size_t i;

	while (from < l->count && is_undefined(&l->rows[from]))
		from++;
	if (from == l->count)
		return false;
	*out = (struct cluster){from, from, 0};
	for (i = from; i + 1 < l->count; i++) {
		uint64_t size = l->rows[i + 1].addr - l->rows[i].addr;

		if (!is_undefined(&l->rows[i]))
			out->code += size;
		else if (size >= GAP_LEAST)
			break;
	}
	out->end = i;
	return true;
}

static uint64_t cluster_span(const struct row_list *l, const struct cluster *c)
{
	/* Tables begin at multiples of 256. */
	return l->rows[c->end].addr - (l->rows[c->first].addr & ~(uint64_t)255);
}

/* Can a table hold a cluster, and is it worth its size? */
static bool is_near(const struct row_list *l, const struct cluster *c)
{
	uint64_t span = cluster_span(l, c);

	return span <= UINT32_MAX && span - c->code <= GAPS_MOST(c->code);
}

void rows_near(const struct row_list *rows, struct row_list *near, struct far_code *far)
{
	struct cluster best = {0}, from, with, next;
	uint64_t all = 0;

	*near = *rows;
	*far = (struct far_code){0};
	if (!rows->count || !cluster_next(rows, 0, &from))
		return;
	with = (struct cluster){from.first, rows->count - 1, 0};
	for (next = from;;) {
		all += next.code;
		if (!cluster_next(rows, next.end, &next))
			break;
	}
	with.code = all;
	if (is_near(rows, &with))
		return;
	/* From each cluster on, try as many clusters as are near one another. Few files get here, and these have few
	 * clusters. */
	do {
		for (with = next = from; is_near(rows, &with);) {
			if (with.code > best.code)
				best = with;
			if (!cluster_next(rows, next.end, &next))
				break;
			with.end = next.end;
			with.code += next.code;
		}
	} while (cluster_next(rows, from.end, &from));
	if (!best.code) /* even a single cluster is too large, which its encoder will report */
		return;
	near->rows = rows->rows + best.first;
	near->count = near->capacity = best.end - best.first + 1;
	far->bytes = all - best.code;
	cluster_next(rows, 0, &from);
	if (from.first == best.first)
		cluster_next(rows, best.end, &from);
	far->at = rows->rows[from.first].addr;
}
