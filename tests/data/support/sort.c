/* SPDX-License-Identifier: MIT */
/*
 * sort.c: tool/support/sort.c by itself, for test_sort.py. Reads pairs of an address and a number, sorts them by both and
 * prints them; with an argument, single words.
 */
#include <inttypes.h>
#include <stdio.h>

#include "support/sort.h"

struct pair {
	uint64_t addr, number;
};

static int order(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static int words(void)
{
	static uint64_t list[4096];
	size_t n = 0, i;

	while (n < 4096 && scanf("%" SCNu64, &list[n]) == 1)
		n++;
	sort_words(list, n);
	for (i = 0; i < n; i++)
		printf("%" PRIu64 "\n", list[i]);
	return 0;
}

int main(int argc, char **argv)
{
	static struct pair list[4096];
	size_t n = 0, i;

	(void)argv;
	if (argc > 1)
		return words();
	while (n < 4096 && scanf("%" SCNu64 " %" SCNu64, &list[n].addr, &list[n].number) == 2)
		n++;
	sort_by_address(list, n, sizeof(*list), order);
	for (i = 0; i < n; i++)
		printf("%" PRIu64 " %" PRIu64 "\n", list[i].addr, list[i].number);
	return 0;
}
