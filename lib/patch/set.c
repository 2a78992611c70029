/* SPDX-License-Identifier: MIT */
/* set.c: the sets of any object. The object's sites may be of any kind, so everything that changes sites is linked
 * with it. */
#include "patch/parts.h"

PART_NEEDS(ETCH_PART_OBJECTS_SYMBOL);

/* Sorts the words of several changes by address, and merges them so that each word occurs once. */
static int stores_in_order(struct list *l)
{
	struct word *w = l->word;
	size_t n = 0;
	int err = list_sort(l);

	for (size_t i = 0; i < l->count && !err; i++) {
		if (n && w[n - 1].at == w[i].at) { /* the later one wins */
			w[n - 1].new = (w[n - 1].new & ~w[i].mask) | w[i].new;
			w[n - 1].mask |= w[i].mask;
		} else {
			w[n++] = w[i];
		}
	}
	l->count = n;
	return err;
}

ETCH_API int etch_set_batch(const struct etch_change *changes, size_t count)
{
	return set_changes(changes, count, stores_in_order);
}

ETCH_API int etch_set_bytes(void *object, const void *value, size_t size)
{
	return etch_imv_set_bytes(object, value, size);
}
