/* SPDX-License-Identifier: MIT */
/* Growing arrays, and sorted arrays of 64-bit words. */
#ifndef SUPPORT_VECTOR_H
#define SUPPORT_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Makes room for one more element in *array, a pointer to a malloc'd array; doubles its size. */
static inline bool room_make(void *array, size_t *room, size_t count, size_t size)
{
	void **p = array, *grown;
	size_t want;

	if (count < *room)
		return true;
	want = *room ? 2 * *room : 64;
	grown = realloc(*p, want * size);
	if (!grown)
		return false;
	*p = grown;
	*room = want;
	return true;
}

static inline int word_order(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static inline bool is_sorted(const void *list, size_t n, size_t size, int (*order)(const void *, const void *))
{
	const char *p = list;
	size_t i;

	for (i = 1; i < n; i++)
		if (order(p + (i - 1) * size, p + i * size) > 0)
			return false;
	return true;
}

/* As qsort(), for lists that are usually sorted already. */
static inline void sort_if_needed(void *list, size_t n, size_t size, int (*order)(const void *, const void *))
{
	if (!is_sorted(list, n, size, order))
		qsort(list, n, size, order);
}

/* Is a word in a sorted list? */
static inline bool word_has(const uint64_t *list, size_t n, uint64_t word)
{
	return n && bsearch(&word, list, n, sizeof(*list), word_order);
}

/* Sorts, drops duplicates, and returns how many words are left. Long lists: sort_words() (sort.h) first. */
static inline size_t words_unique(uint64_t *list, size_t n)
{
	size_t i, k = 0;

	sort_if_needed(list, n, sizeof(*list), word_order);
	for (i = 0; i < n; i++)
		if (!k || list[i] != list[k - 1])
			list[k++] = list[i];
	return k;
}

#endif
