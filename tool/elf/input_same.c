/* SPDX-License-Identifier: MIT */
/* One file under several names: the same name twice, a symbolic link to it, another way there. */
#include "elf/input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct named {
	dev_t device;
	ino_t number;
	size_t at;  /* in the list */
	char *real; /* where it is; null: nothing else has its number */
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

	return c ? c : x->at < y->at ? -1 : 1;
}

/* Of those with one number: hard links are one file by number, and as many that are written. False: out of
 * memory. */
static bool group_mark(const struct inputs *l, struct named *n, size_t count, bool *drop)
{
	size_t i, known = 0;

	for (i = 0; i < count; i++) {
		n[known] = n[i];
		n[known].real = realpath(l->list[n[i].at].path, NULL);
		if (n[known].real)
			known++;
		else if (errno == ENOMEM)
			break;
	}
	if (i == count && known)
		qsort(n, known, sizeof(*n), by_place);
	for (size_t k = 1; i == count && k < known; k++)
		drop[n[k].at] = !strcmp(n[k].real, n[k - 1].real);
	for (size_t k = 0; k < known; k++)
		free(n[k].real);
	return i == count;
}

static void drop_all(struct inputs *l, const bool *drop)
{
	size_t i, count = 0;

	for (i = 0; i < l->count; i++) {
		struct input *in = &l->list[i];

		if (drop[i]) {
			free(in->path);
			free(in->member);
			free(in->holder);
			free(in->error);
		} else {
			l->list[count++] = *in;
		}
	}
	l->count = count;
}

bool inputs_once(struct inputs *l)
{
	struct named *n = calloc(l->count + 1, sizeof(*n));
	bool *drop = calloc(l->count + 1, sizeof(*drop)), good = n && drop;
	size_t count = 0, i, end;
	struct stat st;

	for (i = 0; good && i < l->count; i++)
		if (!l->list[i].member && !l->list[i].error && !stat(l->list[i].path, &st))
			n[count++] = (struct named){st.st_dev, st.st_ino, i, NULL};
	if (count)
		qsort(n, count, sizeof(*n), by_number);
	for (i = 0; good && i < count; i = end) {
		for (end = i + 1; end < count && n[end].device == n[i].device && n[end].number == n[i].number; end++)
			;
		good = end == i + 1 || group_mark(l, n + i, end - i, drop);
	}
	if (good)
		drop_all(l, drop);
	free(drop);
	free(n);
	return good;
}
