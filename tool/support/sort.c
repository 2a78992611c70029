/* SPDX-License-Identifier: MIT */
/* Radix sort of long lists of addresses, and of long lists of elements by address (sort.h). */
#include "support/sort.h"

#include <stdlib.h>
#include <string.h>

#define FEW        256u /* for fewer elements qsort() is as fast or faster */
#define DIGIT      11u  /* bits */
#define DIGITS_MAX 4u

struct keyed {
	uint64_t key; /* relative to the lowest address */
	size_t at;    /* index in the list */
};

static uint64_t address_of(const void *list, size_t i, size_t size)
{
	uint64_t word;

	memcpy(&word, (const char *)list + i * size, sizeof(word));
	return word;
}

/* Sorts by one digit, stably. */
static void digit_sort(const struct keyed *from, struct keyed *to, size_t count, unsigned shift)
{
	size_t place[1u << DIGIT] = {0}, sum = 0, n, i;

	for (i = 0; i < count; i++)
		place[from[i].key >> shift & ((1u << DIGIT) - 1)]++;
	for (i = 0; i < 1u << DIGIT; i++) {
		n = place[i];
		place[i] = sum;
		sum += n;
	}
	for (i = 0; i < count; i++)
		to[place[from[i].key >> shift & ((1u << DIGIT) - 1)]++] = from[i];
}

/* Returns the sorted keys of all elements, in one of the two lists of `count` keys at `keys`, or null if the addresses
 * span too many digits. */
static struct keyed *keys_sort(struct keyed *keys, const void *list, size_t count, size_t size)
{
	uint64_t least = UINT64_MAX, most = 0, word;
	struct keyed *other = keys + count, *swap;
	unsigned shift;
	size_t i;

	for (i = 0; i < count; i++) {
		word = address_of(list, i, size);
		least = word < least ? word : least;
		most = word > most ? word : most;
	}
	if ((most - least) >> DIGIT * DIGITS_MAX)
		return NULL;
	for (i = 0; i < count; i++)
		keys[i] = (struct keyed){address_of(list, i, size) - least, i};
	for (shift = 0; (most - least) >> shift; shift += DIGIT) {
		digit_sort(keys, other, count, shift);
		swap = keys;
		keys = other;
		other = swap;
	}
	return keys;
}

void sort_by_address(void *list, size_t count, size_t size, int (*order)(const void *, const void *))
{
	struct keyed *both = count > FEW ? malloc(2 * count * sizeof(*both)) : NULL, *keys;
	char *sorted = both ? malloc(count * size) : NULL;
	size_t i, n;

	keys = sorted ? keys_sort(both, list, count, size) : NULL;
	if (!keys) {
		if (count > 1)
			qsort(list, count, size, order);
		goto out;
	}
	for (i = 0; i < count; i++)
		memcpy(sorted + i * size, (char *)list + keys[i].at * size, size);
	for (i = 0; i < count; i += n) {
		for (n = 1; i + n < count && keys[i + n].key == keys[i].key; n++)
			;
		if (n > 1)
			qsort(sorted + i * size, n, size, order);
	}
	memcpy(list, sorted, count * size);
out:
	free(sorted);
	free(both);
}

void sort_by_address_if_needed(void *list, size_t count, size_t size, int (*order)(const void *, const void *))
{
	if (!is_sorted(list, count, size, order))
		sort_by_address(list, count, size, order);
}

/* Sorts words as digit_sort() sorts elements, by one digit of their difference from `least`. */
static void word_digit_sort(const uint64_t *from, uint64_t *to, size_t count, uint64_t least, unsigned shift)
{
	size_t place[1u << DIGIT] = {0}, sum = 0, n, i;

	for (i = 0; i < count; i++)
		place[(from[i] - least) >> shift & ((1u << DIGIT) - 1)]++;
	for (i = 0; i < 1u << DIGIT; i++) {
		n = place[i];
		place[i] = sum;
		sum += n;
	}
	for (i = 0; i < count; i++)
		to[place[(from[i] - least) >> shift & ((1u << DIGIT) - 1)]++] = from[i];
}

void sort_words(uint64_t *list, size_t count)
{
	uint64_t *other = count > FEW ? malloc(count * sizeof(*other)) : NULL, *from = list, *to = other, *swap;
	uint64_t least = UINT64_MAX, most = 0;
	unsigned shift;
	size_t i;

	for (i = 0; i < count; i++) {
		least = list[i] < least ? list[i] : least;
		most = list[i] > most ? list[i] : most;
	}
	if (!other || (most - least) >> DIGIT * DIGITS_MAX) {
		sort_if_needed(list, count, sizeof(*list), word_order);
		free(other);
		return;
	}
	for (shift = 0; (most - least) >> shift; shift += DIGIT) {
		word_digit_sort(from, to, count, least, shift);
		swap = from;
		from = to;
		to = swap;
	}
	if (from != list)
		memcpy(list, from, count * sizeof(*list));
	free(other);
}
