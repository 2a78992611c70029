/* SPDX-License-Identifier: MIT */
/*
 * patch_list.c: lists of the words that a change consists of. They are on the caller's
 * stack or in separate mappings, without malloc, which may be what is being patched.
 */
#include <string.h>

#include "patch/patch.h"
#include "common/sys.h"

/* The list of text words; there is only one at a time, under the lock. Initially in text_space;
 * later in the largest mapping of `late`, which is kept, since a new one costs a page fault for
 * every 128 sites. */
static struct word sort_space[LIST_FIXED], text_space[LIST_FIXED];
/* For one thread's list of data words that exceeds its stack space; other threads map theirs. */
static struct word data_space[LIST_FIXED];
static int data_taken;
static struct word *spare;
static size_t spare_capacity;
#define SPARE_MAX ((size_t)64 << 10) /* maximum number of words kept: 2 MiB */

/* Maps room for `count` words. flags: MAP_POPULATE if all of it will be used, which avoids most
 * page faults. */
static struct word *words_map(size_t count, int flags) { return sys_map(count * sizeof(struct word), flags); }

static void words_unmap(struct word *w, size_t count)
{
	if (w == data_space)
		__atomic_store_n(&data_taken, 0, __ATOMIC_RELEASE);
	else if (w != text_space)
		sys_munmap(w, count * sizeof(*w));
}

void list_begin(struct list *l, struct word *fixed, size_t capacity)
{
	l->word = l->fixed = fixed;
	l->count = 0;
	l->capacity = capacity;
}

void list_end(struct list *l)
{
	if (l->word != l->fixed && l->word != spare)
		words_unmap(l->word, l->capacity);
}

static void list_move(struct list *l, struct word *w, size_t capacity, int text)
{
	if (l->count)
		memcpy(w, l->word, l->count * sizeof(*w));
	if (l->word != l->fixed && l->word != spare)
		words_unmap(l->word, l->capacity);
	if (text && w != spare && capacity <= SPARE_MAX) {
		if (spare)
			words_unmap(spare, spare_capacity);
		spare = w;
		spare_capacity = capacity;
	}
	l->word = w;
	l->capacity = capacity;
}

int list_grow(struct list *l, int text)
{
	size_t capacity = l->capacity * 4;
	struct word *w;

	if (text && !spare) {
		spare = text_space;
		spare_capacity = LIST_FIXED;
	}
	if (text && spare_capacity > l->capacity) {
		w = spare;
		capacity = spare_capacity;
	} else if (!text && l->capacity < LIST_FIXED && !__atomic_exchange_n(&data_taken, 1, __ATOMIC_ACQUIRE)) {
		w = data_space;
		capacity = LIST_FIXED;
	} else {
		w = words_map(capacity, 0);
		if (!w)
			return ETCH_ENOMEM;
	}
	list_move(l, w, capacity, text);
	return 0;
}

void list_reserve(struct list *l, size_t count)
{
	struct word *w = NULL;

	if (count > l->capacity && count > spare_capacity)
		w = words_map(count, MAP_POPULATE);
	if (w)
		list_move(l, w, count, 1);
}

void list_fork(void) { data_taken = 0; }

/* End of the ascending run that starts at i. */
static size_t run_end(const struct word *w, size_t i, size_t n)
{
	for (i++; i < n && w[i - 1].at <= w[i].at; i++)
		;
	return i < n ? i : n;
}

/* As run_end(), after reversing a strictly descending run in place. gcc emits variables last to
 * first, so a batch in source order is one descending run. */
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

/* A merge sort of the existing runs: tables are sorted, so a list is one run, or one run per
 * field. */
int list_sort(struct list *l)
{
	struct word *temp = sort_space, *from = l->word, *to, *w;
	size_t n = l->count, runs = 0, a, b, c, i, j, k;

	for (i = 0; i < n; runs++)
		i = run_make(from, i, n);
	if (runs <= 1)
		return 0;
	if (n > LIST_FIXED) {
		temp = words_map(n, MAP_POPULATE);
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
