/* SPDX-License-Identifier: MIT */
/* Chooses the rows of a table where code is far apart (near_rows.h). */
#include "table/near_rows.h"

#include <etch/orc.h>

/* A shorter gap does not separate code: linkers align segments to 2 MB at most. A cluster then has few others within
 * GAPS_MOST(), which bounds the time of rows_near() on any file. */
#define GAP_LEAST ((uint64_t)2 << 20)
/* Gaps may span 4 MB plus 8 times the size of the code, for which a table takes a fourth of a byte for each byte of
 * code. */
#define GAPS_MOST(code) (((uint64_t)4 << 20) + 8 * (code))

/* Rows from `first` up to `end`, whose row is UNDEF and begins a gap or ends the list. */
struct cluster {
	size_t first, end;
	uint64_t code; /* bytes with a rule */
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
	return l->rows[c->end].addr - (l->rows[c->first].addr & ~(uint64_t)255); /* tables begin at multiples of 256 */
}

/* Can a table hold this much, and is it worth its size? */
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
	/* Try, from each cluster on, as many as are near. Few files get here, and these have few clusters. */
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
	if (!best.code) /* a single cluster is too large: its encoder says so */
		return;
	near->rows = rows->rows + best.first;
	near->count = near->capacity = best.end - best.first + 1;
	far->bytes = all - best.code;
	cluster_next(rows, 0, &from);
	if (from.first == best.first)
		cluster_next(rows, best.end, &from);
	far->at = rows->rows[from.first].addr;
}
