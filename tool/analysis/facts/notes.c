/* SPDX-License-Identifier: MIT */
/* The list of notes: adds notes, sorts the list, and searches it. */
#include "analysis/facts/notes.h"
#include "support/memory.h"
#include "shared/search.h"

#include <stdlib.h>
#include <string.h>

void notes_add(struct notes *n, enum note_kind kind, uint64_t at, uint64_t to)
{
	mem_reserve(&n->list, &n->capacity, n->count, sizeof(*n->list));
	n->list[n->count++] = (struct note){.at = at, .to = to, .kind = (uint8_t)kind};
}

static int note_order(const void *a, const void *b)
{
	const struct note *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->to < y->to ? -1 : x->to > y->to;
}

static int replacement_order(const void *a, const void *b)
{
	const struct replacement *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

/* The bitmap notes.bits has at least this many bits per note, so that most lookups without a note find a bit that is
 * 0. */
#define BITS_A_NOTE 32u

/* Makes notes.bits and notes.shift from the sorted list. */
static void bits_make(struct notes *n)
{
	size_t size = 64, i;

	for (n->shift = 58; size < BITS_A_NOTE * n->count; size *= 2)
		n->shift--;
	free(n->bits);
	n->bits = mem_zero(size / 64, sizeof(*n->bits));
	for (i = 0; i < n->count; i++) {
		const uint64_t hashes[] = {note_hash(n, n->list[i].at, n->list[i].kind), note_hash(n, n->list[i].at, NOTE_ANY)};
		size_t k;

		for (k = 0; k < 2; k++)
			n->bits[hashes[k] / 64] |= (uint64_t)1 << hashes[k] % 64;
	}
}

void notes_sort(struct notes *n)
{
	size_t i, k = 0;

	if (n->count)
		qsort(n->list, n->count, sizeof(*n->list), note_order);
	for (i = 0; i < n->count; i++)
		if (!k || note_order(&n->list[k - 1], &n->list[i]))
			n->list[k++] = n->list[i];
	n->count = k;
	if (n->count)
		bits_make(n);
	if (n->replacement_count)
		qsort(n->replacements, n->replacement_count, sizeof(*n->replacements), replacement_order);
}

void notes_free(struct notes *n)
{
	free(n->list);
	free(n->bits);
	free(n->frames);
	free(n->replacements);
	memset(n, 0, sizeof(*n));
}

const struct note *note_find(const struct notes *n, uint64_t at, enum note_kind kind)
{
	size_t k = SEARCH(n->count, i, n->list[i].at < at || (n->list[i].at == at && n->list[i].kind < kind));

	return k < n->count && n->list[k].at == at && n->list[k].kind == kind ? &n->list[k] : NULL;
}
