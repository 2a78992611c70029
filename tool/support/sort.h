/* SPDX-License-Identifier: MIT */
/* Sorts long lists of addresses and long lists of elements by address, and searches sorted lists of 64-bit words. */
#ifndef SUPPORT_SORT_H
#define SUPPORT_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/*
 * Sorts like qsort(). Each element must begin with a uint64_t, which `order` must compare first. The addresses of one
 * file are close together, so they are radix-sorted by their digits, and `order` is called only for elements with equal
 * addresses.
 */
void sort_by_address(void *list, size_t count, size_t size, int (*order)(const void *, const void *));
/* Sorts as sort_by_address() does, but first checks whether the list is sorted already. */
void sort_by_address_if_needed(void *list, size_t count, size_t size, int (*order)(const void *, const void *));

/* Sorts words; addresses of one file are radix-sorted by their digits. */
void sort_words(uint64_t *list, size_t count);

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

/* Sorts like qsort() a list that is usually sorted already. */
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

/* Sorts the words, drops duplicates, and returns how many are left. For a long list, call sort_words() first. */
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
