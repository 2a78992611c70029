/* SPDX-License-Identifier: MIT */
/*
 * patch_list.c: lists of the words that a change consists of. They are on the caller's stack or in separate mappings,
 * without malloc, because malloc may be the code that is being patched.
 */
#include <string.h>

#include "patch/patch.h"
#include "common/sys.h"

/* The list of text words; there is only one at a time, under the lock. The largest array that it had is kept, because
 * a new one costs a page fault for every 128 sites. */
static struct word text_space[LIST_FIXED];
static struct word *text_free = text_space;
static size_t text_capacity = LIST_FIXED;
#define KEPT_MAX ((size_t)64 << 10) /* maximum number of words kept: 2 MiB */

/* The words of a list of data that has more than LIST_STACK of them. One thread at a time uses it; the others map
 * memory. */
static struct word data_space[LIST_FIXED];
static int data_taken;

static void space_release(const struct list *l)
{
	if (l->word == data_space)
		__atomic_store_n(&data_taken, 0, __ATOMIC_RELEASE);
	else if (l->word != l->fixed && l->word != text_space)
		sys_munmap(l->word, l->capacity * sizeof(struct word));
}

void list_end(struct list *l)
{
	if (l->word == text_free) {
		if (text_capacity <= KEPT_MAX)
			return;
		text_free = text_space;
		text_capacity = LIST_FIXED;
	}
	space_release(l);
}

int list_capacity(struct list *l, size_t capacity, int text, int flags)
{
	struct word *w = data_space;

	if (text && !l->capacity) {
		l->word = text_free;
		l->capacity = text_capacity;
	}
	if (capacity <= l->capacity)
		return 0;
	if (text || capacity > LIST_FIXED || __atomic_exchange_n(&data_taken, 1, __ATOMIC_ACQUIRE)) {
		w = sys_map(capacity * sizeof(*w), flags);
		if (!w)
			return ETCH_ENOMEM;
	} else {
		capacity = LIST_FIXED;
	}
	memcpy(w, l->word, l->count * sizeof(*w));
	space_release(l);
	l->word = w;
	l->capacity = capacity;
	if (text) {
		text_free = w;
		text_capacity = capacity;
	}
	return 0;
}

int list_add(struct list *l, uint64_t at, uint64_t old, uint64_t new, uint64_t mask, int text)
{
	struct word *w;
	int err = l->count < l->capacity ? 0 : list_capacity(l, 4 * l->capacity, text, 0);

	if (err)
		return err;
	/* Fields, not a struct: -Os copies a struct by a string instruction, which takes longer than everything else
	 * here. */
	w = &l->word[l->count++];
	w->at = at;
	w->old = old;
	w->new = new;
	w->mask = mask;
	w->swap = 0;
	return 0;
}

void list_fork(void)
{
	data_taken = 0;
	/* Another thread may have been enlarging the array. */
	text_free = text_space;
	text_capacity = LIST_FIXED;
}
