/* SPDX-License-Identifier: MIT */
/* list_sort.c: sorts lists of words that are not planned in order (struct part_objects). */
#include <string.h>

#include "patch/patch.h"
#include "common/sys.h"

static struct word sort_space[LIST_FIXED];

/* The end of the ascending run that starts at i. */
static size_t run_end(const struct word *w, size_t i, size_t n)
{
	for (i++; i < n && w[i - 1].at <= w[i].at; i++)
		;
	return i < n ? i : n;
}

/* Returns the end of the run that starts at i. A strictly descending run is reversed in place, so that it ascends. gcc
 * emits variables last to first, so a batch in source order is one descending run. */
static size_t run_make(struct word *w, size_t i, size_t n)
{
	size_t end = i + 1;

	while (end < n && w[end].at < w[end - 1].at)
		end++;
	for (size_t a = i, b = end - 1; a < b; a++, b--) {
		struct word x = w[a];

		w[a] = w[b];
		w[b] = x;
	}
	return run_end(w, end - 1, n);
}

/* A merge sort of the existing runs: tables are sorted, so a list is one run, or one run per field. */
int list_sort(struct list *l)
{
	struct word *temp = sort_space, *from = l->word, *to, *w;
	size_t n = l->count, runs = 0, a, b, c, i, j, k;

	for (i = 0; i < n; runs++)
		i = run_make(from, i, n);
	if (runs <= 1)
		return 0;
	if (n > LIST_FIXED) {
		temp = sys_map(n * sizeof(*temp), MAP_POPULATE);
		if (!temp)
			return ETCH_ENOMEM;
	}
	to = temp;
	while (run_end(from, 0, n) < n) {
		for (a = k = 0; a < n; a = c) {
			b = run_end(from, a, n);
			c = b < n ? run_end(from, b, n) : n;
			for (i = a, j = b; i < b || j < c;)
				to[k++] = j >= c || (i < b && from[i].at <= from[j].at) ? from[i++] : from[j++];
		}
		w = from;
		from = to;
		to = w;
	}
	if (from != l->word)
		memcpy(l->word, from, n * sizeof(*from));
	if (temp != sort_space)
		sys_munmap(temp, n * sizeof(*temp));
	return 0;
}
