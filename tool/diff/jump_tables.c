/* SPDX-License-Identifier: MIT */
/* Reads jump tables, and groups their entries by function. */
#include "diff/jump_tables.h"

#include "diff/body.h"
#include "shared/search.h"
#include "support/hash_index.h"
#include "support/memory.h"

#include <stdlib.h>

#define TABLE_MOST 65536u /* greatest number of entries */

/* An entry, with the function that contains its target. */
struct table_entry {
	uint32_t func, index;
	uint64_t addr;
};

/* The result for one place: the table there, or that there is none. */
struct jump_table {
	struct place at;
	uint32_t count, width; /* count < 2: there is no table */
	/* the entries that lead into functions, sorted by function; null: they have not been read yet */
	struct table_entry *entries;
	size_t entry_count;
	uint32_t memo_func; /* function for which the last hash was computed, or NO_FUNC */
	uint64_t memo;
};

struct jump_tables {
	struct jump_table *list;
	size_t count, capacity;
	struct hash_index index;
};

static void table_read(const struct image *im, struct place at, uint64_t limit, struct jump_table *out)
{
	struct place to;

	*out = (struct jump_table){.at = at, .memo_func = NO_FUNC};
	for (out->width = 4; out->width <= 8; out->width += 4) {
		for (out->count = 0; out->count < TABLE_MOST && (out->count + 1) * (uint64_t)out->width <= limit &&
		                     place_entry(im, at, out->width, out->count, &to);)
			out->count++;
		if (out->count >= 2)
			return;
	}
}

/* Returns the result for a place. Reads the table when it is called for this place for the first time. */
static struct jump_table *table_find(const struct image *im, struct place place, uint64_t limit)
{
	struct jump_tables *t = im->places.tables;
	uint32_t hash = (uint32_t)mix(mix(0, place.section), place.addr), i;
	size_t at;

	for (at = hash; (i = hash_index_next(&t->index, hash, &at)) != HASH_INDEX_NONE;)
		if (!place_order(&t->list[i].at, &place))
			return &t->list[i];
	hash_index_add(&t->index, hash, (uint32_t)t->count);
	mem_reserve(&t->list, &t->capacity, t->count, sizeof(*t->list));
	table_read(im, place, limit, &t->list[t->count]);
	return &t->list[t->count++];
}

size_t jump_table_at(const struct image *im, struct place at, uint64_t limit, unsigned *width)
{
	const struct jump_table *x = table_find(im, at, limit);

	*width = x->width;
	return x->count >= 2 ? x->count : 0;
}

static int entry_order(const void *a, const void *b)
{
	const struct table_entry *x = a, *y = b;

	if (x->func != y->func)
		return x->func < y->func ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static void entries_read(const struct image *im, struct jump_table *x, unsigned width, size_t n)
{
	struct place to;
	size_t i;

	if (x->entries)
		return;
	x->entries = mem_alloc(n + 1, sizeof(*x->entries));
	for (i = 0; i < n && place_entry(im, x->at, width, i, &to); i++) {
		uint32_t func = image_function(im, to.section, to.addr);

		if (func != NO_FUNC)
			x->entries[x->entry_count++] = (struct table_entry){func, (uint32_t)i, to.addr};
	}
	if (x->entry_count)
		qsort(x->entries, x->entry_count, sizeof(*x->entries), entry_order);
}

static uint64_t entry_code(uint64_t h, size_t index, size_t token) { return mix(mix(h, index), token); }

uint64_t jump_table_code(const struct image *im, struct place at, unsigned width, size_t n, uint32_t func,
                         const struct body *b)
{
	struct jump_table *x = table_find(im, at, n * width);
	uint64_t h = n;
	size_t i;

	if (x->memo_func == func)
		return x->memo;
	entries_read(im, x, width, n);
	for (i = SEARCH(x->entry_count, k, x->entries[k].func < func); i < x->entry_count && x->entries[i].func == func;
	     i++)
		h = entry_code(h, x->entries[i].index, body_token(b, x->entries[i].addr));
	x->memo_func = func;
	x->memo = h;
	return h;
}

struct jump_tables *jump_tables_new(void) { return mem_zero(1, sizeof(struct jump_tables)); }

void jump_tables_free(struct jump_tables *t)
{
	size_t i;

	if (!t)
		return;
	for (i = 0; i < t->count; i++)
		free(t->list[i].entries);
	free(t->list);
	hash_index_free(&t->index);
	free(t);
}
