/* SPDX-License-Identifier: MIT */
/*
 * Functions under an FDE that describes none of them: a compiler may write one FDE for all of its code, and assembly
 * may have one pair of .cfi_startproc and .cfi_endproc around several functions. Symbols give the starts of these
 * functions (ranges.c); in a stripped file calls, address references and the code itself do. Starts become entries of
 * their code range. A symbol may also mark the end that several functions share and jump to in their frame, as libgcc's
 * __resms64fx_12 does: such a symbol is no entry.
 *
 * Only those addresses are considered whose row is .eh_frame's alone, not proven by code, and contradicts a function's
 * entry.
 */
#include "analysis/interproc/tried_starts.h"
#include "analysis/interproc/range_starts.h"
#include "analysis/interproc/work.h"
#include "support/memory.h"
#include "shared/search.h"

#include <string.h>

/* Is a row .eh_frame's alone, not proven by code, and does it contradict the state of a function's entry? */
static bool is_unproven(const struct row *row)
{
	return (row->source == ETCH_SOURCE_CFI || row->inferred) &&
	       state_witness(&state_at_entry, &row->rule) == WITNESS_DENIES;
}

/* May a function begin at an address of a code range (see the head of this file)? */
static bool may_begin(const struct work *w, uint32_t range, uint64_t addr)
{
	const struct row *row = range_row_at(&w->state[range].rows, addr);
	const struct code_range *p = &w->ranges.list[range];

	if (p->fde < 0 || p->plt || !row || !is_unproven(row))
		return false;
	/* At its start an FDE may describe code entered with words pushed, as ld.so's resolvers are by the PLT. */
	return addr != p->start || row->rule.cfa != ETCH_REG_RSP;
}

/* ---- symbols that begin none ------------------------------------------------------------------ */

/* The entries of a code range where the FDE has another row than a function's entry. */
struct contradicted {
	const struct code_ranges *ranges;
	uint32_t at, end; /* the entries of the code range that are left */
	struct starts starts;
};

static void contradicted_add(void *ctx, const struct etch_cfi_row *row)
{
	struct contradicted *x = ctx;
	bool denied = state_witness(&state_at_entry, &row->rule) == WITNESS_DENIES;

	for (; x->at < x->end && x->ranges->entries[x->at] < row->end; x->at++)
		if (denied)
			start_put(&x->starts, x->ranges->entries[x->at]);
}

/* Drops the sorted starts from the entries of the code ranges. */
static void entries_drop(struct code_ranges *p, const struct starts *s)
{
	size_t i, from, to = 0;

	for (i = 0; i < p->count; i++) {
		struct code_range *x = &p->list[i];
		size_t end = x->entry + x->entry_count;

		for (from = x->entry, x->entry = (uint32_t)to; from < end; from++)
			if (!word_has(s->list, s->count, p->entries[from]))
				p->entries[to++] = p->entries[from];
		x->entry_count = (uint32_t)(to - x->entry);
	}
	p->entry_count = to;
}

/* What is tried from a symbol on as the end of functions, at most: bytes, and contradicted entries that it runs into.
 * This bounds the time where one FDE has thousands of entries. */
#define END_MOST     1024u
#define ENTRIES_MOST 8u

void wide_named(struct work *w)
{
	struct contradicted x = {.ranges = &w->ranges};
	size_t i, k = 0, n = 0;

	for (i = 0; i < w->ranges.count && !w->options->no_cfi; i++) {
		const struct code_range *p = &w->ranges.list[i];

		if (!p->entry_count || p->fde < 0 || p->plt)
			continue;
		x.at = p->entry;
		x.end = p->entry + p->entry_count;
		cfi_file_rows(&w->cfi, (size_t)p->fde, 0, contradicted_add, &x);
		for (; k < x.starts.count; k++) {
			uint64_t start = x.starts.list[k];
			uint64_t end = k + ENTRIES_MOST < x.starts.count ? x.starts.list[k + ENTRIES_MOST] : p->end;

			if (start_leaves_frame(w, &x.starts.flow, p, start, end - start > END_MOST ? start + END_MOST : end))
				x.starts.list[n++] = start;
		}
		k = x.starts.count = n;
	}
	if (n)
		entries_drop(&w->ranges, &x.starts);
	starts_free(&x.starts);
}

/* ---- starts that calls lead to ---------------------------------------------------------------- */

/* Makes the starts entries of the code ranges that hold them, and marks these code ranges. */
static void entries_add(struct work *w, struct starts *s)
{
	struct code_ranges *p = &w->ranges;
	uint64_t *all;
	size_t i, k, n;

	s->count = words_unique(s->list, s->count);
	if (!s->count)
		return;
	all = mem_alloc(p->entry_count + s->count, sizeof(*all));
	memcpy(all, p->entries, p->entry_count * sizeof(*all));
	memcpy(all + p->entry_count, s->list, s->count * sizeof(*all));
	n = words_unique(all, p->entry_count + s->count);
	for (i = k = 0; i < p->count; i++) {
		struct code_range *x = &p->list[i];
		uint32_t had = x->entry_count;

		while (k < n && all[k] < x->start)
			k++;
		x->entry = (uint32_t)k;
		while (k < n && all[k] < x->end)
			k++;
		x->entry_count = (uint32_t)k - x->entry;
		if (x->entry_count != had)
			w->state[i].run |= RUN_NEWS;
	}
	free(p->entries);
	p->entries = all;
	p->entry_count = n;
	w->env.entries = all;
}

/* Adds the start of a code range, if some code that calls it is certainly code. */
static void start_called(const struct work *w, struct starts *s, size_t i)
{
	uint32_t k;

	for (k = w->graph.calls.into[w->state[i].id]; k; k = w->graph.calls.list[k - 1].next) {
		const struct link *x = &w->graph.calls.list[k - 1];

		if (x->start && !w->ranges.list[w->graph.place[x->from]].inferred) {
			start_put(s, x->target);
			return;
		}
	}
}

/* Finds the lowest start of a code range that may_begin() may accept; returns the bytes from there up to the highest
 * end, or 0 if there is none. Adds the starts that may_begin() accepts and that are called. */
static uint64_t wide_extent(struct work *w, struct starts *s, uint64_t *first)
{
	uint64_t end = 0;
	size_t i;

	*first = 0;
	for (i = 0; i < w->ranges.count; i++) { /* sorted */
		const struct code_range *p = &w->ranges.list[i];

		if (!w->state[i].rows.unproven || p->fde < 0 || p->plt)
			continue;
		if (!end)
			*first = p->start;
		end = p->end;
		if (w->state[i].entered & ENTRY_CALLED && may_begin(w, (uint32_t)i, p->start))
			start_called(w, s, i);
	}
	return end - *first;
}

void wide_called(struct work *w)
{
	uint64_t first = 0, extent = 0;
	struct starts s = {0};
	size_t i;

	if (!w->options->no_cfi)
		extent = wide_extent(w, &s, &first);
	for (i = 0; i < w->graph.calls.other_count && extent; i++) {
		const struct link *x = &w->graph.calls.list[w->graph.calls.others[i]];

		if (x->target - first < extent && x->to != NO_RANGE && x->kind != EXIT_REF &&
		    w->state[w->graph.place[x->to]].rows.unproven && !w->ranges.list[w->graph.place[x->from]].inferred &&
		    may_begin(w, w->graph.place[x->to], x->target))
			start_put(&s, x->target);
	}
	entries_add(w, &s);
	free(s.list);
}

/* ---- starts that no call leads to ----------------------------------------------------------- */

/* Adds the addresses in [start, end) that data holds, and a named start. Any of them may be a part of a function. */
static void referred_find(const struct work *w, struct starts *s, const struct code_range *p, uint64_t start,
                          uint64_t end)
{
	size_t i = SEARCH(w->starts.data_count, k, w->starts.data[k] < start);

	if (start == p->start && p->named)
		start_put(s, start);
	for (; i < w->starts.data_count && w->starts.data[i] < end; i++)
		start_put(s, w->starts.data[i]);
}

/* Does .eh_frame have one row for all of a code range, or does the code contradict .eh_frame at a function's entry? */
static bool is_wide(const struct work *w, size_t i)
{
	const struct code_range *p = &w->ranges.list[i];

	return p->fde >= 0 && !p->plt && (w->state[i].cfi_one_row || w->state[i].cfi_denied);
}

void wide_sweep(struct work *w)
{
	struct starts s = {0};
	size_t i, k, next;

	for (i = 0; i < w->ranges.count && !w->options->no_cfi; i++) {
		const struct range_rows *r = &w->state[i].rows;
		const struct code_range *p = &w->ranges.list[i];

		for (k = 0; k < r->count && is_wide(w, i); k = next) {
			uint64_t start = r->rows[k].addr, end;
			size_t from = s.count;

			for (next = k + 1; next < r->count && is_unproven(&r->rows[k]) && is_unproven(&r->rows[next]);)
				next++;
			end = next < r->count ? r->rows[next].addr : p->end;
			if (!may_begin(w, (uint32_t)i, start))
				continue;
			prologues_find(&s, p, start, end, true);
			referred_find(w, &s, p, start, end);
			starts_try(w, &s, p, from, end);
		}
	}
	entries_add(w, &s);
	starts_free(&s);
}
