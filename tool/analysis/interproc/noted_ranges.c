/* SPDX-License-Identifier: MIT */
/* Adds code ranges according to the notes of a profile (facts/notes.h): replacements, and code that no function symbol
 * covers. */
#include "analysis/interproc/work.h"
#include "analysis/interproc/range_starts.h"
#include "support/memory.h"
#include "support/sort.h"
#include "shared/search.h"

static int range_order(const void *a, const void *b)
{
	const struct code_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Adds [start, end) of a section as a code range that is a part. */
static void part_push(struct code_ranges *p, const struct code_section *c, uint64_t start, uint64_t end)
{
	mem_reserve(&p->list, &p->capacity, p->count, sizeof(*p->list));
	p->list[p->count++] =
		(struct code_range){.start = start, .end = end, .bytes = c->bytes + (start - c->addr), .fde = -1, .part = true};
}

/* Adds [from, to) as code ranges, divided where replacements begin and end. */
static void gap_cut(struct code_ranges *p, const struct code_section *c, const uint64_t *cuts, size_t count,
                    uint64_t from, uint64_t to)
{
	size_t i;

	for (i = SEARCH(count, k, cuts[k] <= from); i < count && cuts[i] < to; from = cuts[i++])
		part_push(p, c, from, cuts[i]);
	if (from < to)
		part_push(p, c, from, to);
}

/* Returns the addresses where replacements begin and end, sorted. The caller frees the array. */
static uint64_t *cuts_make(const struct notes *n, size_t *count)
{
	uint64_t *cuts = mem_alloc(2 * n->replacement_count + 1, sizeof(*cuts));
	size_t i;

	*count = 0;
	for (i = 0; i < n->replacement_count; i++)
		if (n->replacements[i].size) {
			cuts[(*count)++] = n->replacements[i].from;
			cuts[(*count)++] = n->replacements[i].from + n->replacements[i].size;
		}
	*count = words_unique(cuts, *count);
	return cuts;
}

void noted_ranges(struct work *w)
{
	const struct code_space *space = &w->out->space;
	const struct profile *profile = w->options->profile;
	struct code_ranges *p = &w->ranges;
	size_t known = p->count, i, k = 0, count;
	uint64_t *cuts = cuts_make(&w->out->notes, &count);

	for (i = 0; i < known; i++) {
		p->list[i].part |= profile->functions_only && !p->list[i].named;
		p->list[i].open &= !p->list[i].part; /* its flow does not show where another part begins */
	}
	for (i = 0; i < space->count; i++) {
		const struct code_section *c = &space->list[i];
		uint64_t at = c->addr, end = c->addr + c->size;

		while (k < known && p->list[k].start < end) {
			gap_cut(p, c, cuts, count, at, p->list[k].start);
			at = p->list[k++].end;
		}
		gap_cut(p, c, cuts, count, at, end);
	}
	free(cuts);
	p->list = mem_resize(p->list, p->count, sizeof(*p->list));
	p->capacity = p->count;
	sort_by_address(p->list, p->count, sizeof(*p->list), range_order);
	for (i = 0; i < p->count; i++)
		p->list[i].resumes = p->list[i].part && note_at(&w->out->notes, p->list[i].end, NOTE_RESUME);
	w->env.ranges = p->list;
	w->env.range_count = p->count;
	w->env.notes = &w->out->notes;
	w->env.abi_flags =
		(uint8_t)((profile->no_red_zone ? ABI_NO_RED_ZONE : 0) | (profile->switches_stack ? ABI_SWITCHES_STACK : 0) |
	              (profile->traps_continue ? ABI_TRAPS_CONTINUE : 0));
}
