/* SPDX-License-Identifier: MIT */
/* Finds inputs that are the same file, named twice or by a symbolic link or another path. Hard links stay recorded,
 * since `etch rewrite` has to replace each of them. */
#include "input/input.h"
#include "support/bounds.h"
#include "support/memory.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct named {
	dev_t device;
	ino_t number;
	size_t at;  /* index in the list of inputs */
	char *real; /* its realpath(); null if no other input has the same inode */
};

static int by_number(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return x->at < y->at ? -1 : 1;
}

static int by_place(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int c = strcmp(x->real, y->real);

	if (c)
		return c;
	return x->at < y->at ? -1 : 1;
}

/* Takes the inputs of one inode that are not dropped yet: they have different real paths, so they are hard links. All
 * but the first one in the list become `links` of that one, and are dropped. */
static void links_take(struct inputs *l, const struct named *n, size_t count, bool *drop)
{
	size_t first = SIZE_MAX, k;
	struct input *in;

	for (k = 0; k < count; k++)
		if (!drop[n[k].at] && n[k].at < first)
			first = n[k].at;
	for (k = 0; k < count; k++) {
		if (drop[n[k].at] || n[k].at == first)
			continue;
		in = &l->list[first];
		if (!in->links)
			in->links = mem_zero(count, sizeof(*in->links));
		in->links[in->link_count++] = l->list[n[k].at].path;
		l->list[n[k].at].path = NULL;
		drop[n[k].at] = true;
	}
}

/* Marks the duplicates among inputs with the same inode. */
static void group_mark(struct inputs *l, struct named *n, size_t count, bool *drop)
{
	size_t i, known = 0;

	for (i = 0; i < count; i++) {
		n[known] = n[i];
		n[known].real = realpath(l->list[n[i].at].path, NULL);
		if (n[known].real)
			known++;
		else if (errno == ENOMEM)
			bounds_exhausted();
	}
	if (known)
		qsort(n, known, sizeof(*n), by_place);
	for (size_t k = 1; k < known; k++)
		drop[n[k].at] = !strcmp(n[k].real, n[k - 1].real);
	links_take(l, n, known, drop);
	for (size_t k = 0; k < known; k++)
		free(n[k].real);
}

void input_clear(struct input *in)
{
	size_t i;

	for (i = 0; i < in->link_count; i++)
		free(in->links[i]);
	free(in->links);
	free(in->path);
	free(in->member);
	free(in->holder);
	free(in->error);
}

static void drop_all(struct inputs *l, const bool *drop)
{
	size_t i, count = 0;

	for (i = 0; i < l->count; i++) {
		struct input *in = &l->list[i];

		if (drop[i]) {
			input_clear(in);
		} else {
			l->list[count++] = *in;
		}
	}
	l->count = count;
}

void inputs_once(struct inputs *l)
{
	struct named *n = mem_zero(l->count, sizeof(*n));
	bool *drop = mem_zero(l->count, sizeof(*drop));
	size_t count = 0, i, end;
	struct stat st;

	for (i = 0; i < l->count; i++)
		if (!l->list[i].member && !l->list[i].error && !stat(l->list[i].path, &st))
			n[count++] = (struct named){st.st_dev, st.st_ino, i, NULL};
	if (count)
		qsort(n, count, sizeof(*n), by_number);
	for (i = 0; i < count; i = end) {
		for (end = i + 1; end < count && n[end].device == n[i].device && n[end].number == n[i].number; end++)
			;
		if (end > i + 1)
			group_mark(l, n + i, end - i, drop);
	}
	drop_all(l, drop);
	free(drop);
	free(n);
}

struct bytes {
	dev_t device;
	ino_t number;
	uint64_t offset, size;
	size_t at; /* index in the list of inputs */
};

static int by_bytes(const void *a, const void *b)
{
	const struct bytes *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->size < y->size ? -1 : x->size > y->size;
}

static int by_bytes_and_place(const void *a, const void *b)
{
	const struct bytes *x = a, *y = b;
	int c = by_bytes(a, b);

	return c ? c : (x->at > y->at) - (x->at < y->at);
}

size_t *inputs_first(const struct inputs *l)
{
	struct bytes *list = mem_zero(l->count, sizeof(*list));
	size_t *first = mem_zero(l->count, sizeof(*first)), count = 0, i;
	struct stat st;

	for (i = 0; i < l->count; i++) {
		const struct input *in = &l->list[i];

		first[i] = i;
		if (!in->error && !stat(input_file(in), &st))
			list[count++] = (struct bytes){st.st_dev, st.st_ino, in->offset, in->size, i};
	}
	if (count)
		qsort(list, count, sizeof(*list), by_bytes_and_place);
	for (i = 1; i < count; i++)
		if (!by_bytes(&list[i - 1], &list[i]))
			first[list[i].at] = first[list[i - 1].at];
	free(list);
	return first;
}
