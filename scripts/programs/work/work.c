// SPDX-License-Identifier: MIT
// A small program for compilers, debuggers and tracers: some functions, a fault, a leak.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct list { struct list *next; int value; };
static int counter;

static struct list *push(struct list *list, int value)
{
	struct list *l = malloc(sizeof(*l));

	l->next = list;
	l->value = value;
	counter += value;
	return l;
}

int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

int sum(const struct list *list)
{
	return list ? list->value + sum(list->next) : 0;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 5, *sorted = malloc(n * sizeof(int)), i;
	struct list *list = NULL;

	for (i = 0; i < n; i++) {
		sorted[i] = i * 7919 % 101;
		list = push(list, sorted[i]);
	}
	qsort(sorted, n, sizeof(int), compare);
	printf("%d %d %d %d\n", sum(list), counter, sorted[0], sorted[n - 1]);
	if (argc > 2 && !strcmp(argv[2], "fault"))
		*(volatile int *)8 = 1;
	if (argc > 2 && !strcmp(argv[2], "beyond"))
		printf("%d\n", sorted[n]);
	free(sorted);
	return 0;
}
