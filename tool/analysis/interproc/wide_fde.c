/* SPDX-License-Identifier: MIT */
/*
 * Finds functions under an FDE that covers several functions and describes none of them: a compiler may write one FDE
 * for all of its code, and assembly may have one pair of .cfi_startproc and .cfi_endproc around several functions. The
 * starts of these functions are given by symbols (ranges.c); in a stripped file, by calls, address references and the
 * code itself. They become entries of their code range. A symbol may also mark a common end to which several functions
 * jump in their frame, such as __resms64fx_12 of libgcc: such a symbol is no entry.
 *
 * A function may begin only at an address whose row comes from .eh_frame alone, is not proven by code, and contradicts
 * the state of a function's entry.
 */
#include "analysis/interproc/tried_starts.h"
#include "analysis/interproc/range_starts.h"
#include "analysis/interproc/work.h"
#include "support/memory.h"
#include "shared/search.h"

#include <string.h>

/* Does a row come from .eh_frame alone, without proof by code, and contradict the state of a function's entry? */
static bool is_unproven(const struct row *row)
{
	return (row->source == ETCH_SOURCE_CFI || row->inferred) &&
	       state_witness(&state_at_entry, &row->rule) == WITNESS_DENIES;
}

/* May a function begin at an address of a code range, by the rule in the head of this file? */
static bool may_begin(const struct work *w, uint32_t range, uint64_t addr)
{
	const struct row *row = range_row_at(&w->state[range].rows, addr);
	const struct code_range *p = &w->ranges.list[range];

	if (p->fde < 0 || p->plt || !row || !is_unproven(row))
		return false;
	/* At its start, an FDE may describe code that is entered with words pushed, as the PLT does for the resolvers of
	 * ld.so. */
	return addr != p->start || row->rule.cfa != ETCH_REG_RSP;
}

/* ---- symbols that begin no function ----------------------------------------------------------- */

/* Those entries of a code range at which the FDE has a row other than that of a function's entry. */
struct contradicted {
	const struct code_ranges *ranges;
	uint32_t at, end; /* the entries of the code range that have not been looked at yet */
	struct starts starts;
};

/* Adds those entries to x->starts that a row covers and contradicts. Called for each row of the FDE, in order. */
static void contradicted_add(void *ctx, const struct etch_cfi_row *row)
{
	struct contradicted *x = ctx;
	bool denied = state_witness(&state_at_entry, &row->rule) == WITNESS_DENIES;

	for (; x->at < x->end && x->ranges->entries[x->at] < row->end; x->at++)
		if (denied)
			start_put(&x->starts, x->ranges->entries[x->at]);
}

/* Removes the starts, which are sorted, from the entries of the code ranges. */
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

/* Limits for the code after a symbol that is analysed as a common end of functions: its bytes, and the number of
 * contradicted entries in it. They bound the time where one FDE has thousands of entries. */
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

/* Makes the starts entries of the code ranges that contain them, and marks these code ranges. */
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

/* Adds the start of code range i, if it is called by code that is certainly code. */
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

/* Sets *first to the start of the first code range that has unproven rows and an FDE. Returns the number of bytes from
 * there to the end of the last such code range, or 0 if there is none. Adds the starts of such code ranges that are
 * called and that may_begin() accepts. */
static uint64_t wide_extent(struct work *w, struct starts *s, uint64_t *first)
{
	uint64_t end = 0;
	size_t i;

	*first = 0;
	for (i = 0; i < w->ranges.count; i++) { /* in ascending order of address */
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

/* Adds the addresses in [start, end) that data holds, and `start` if the code range begins there and has a name. Any of
 * them may be a part of a function. */
static void referred_find(const struct work *w, struct starts *s, const struct code_range *p, uint64_t start,
                          uint64_t end)
{
	size_t i = SEARCH(w->starts.data_count, k, w->starts.data[k] < start);

	if (start == p->start && p->named)
		start_put(s, start);
	for (; i < w->starts.data_count && w->starts.data[i] < end; i++)
		start_put(s, w->starts.data[i]);
}

/* May the FDE of a code range cover several functions? It may if .eh_frame has one row for the whole code range, or if
 * the code contradicts .eh_frame at a function's entry. */
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
