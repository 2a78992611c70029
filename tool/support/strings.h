/* SPDX-License-Identifier: MIT */
/* Strings: how they begin and end, their order for qsort(), and the plural of a noun. */
#ifndef SUPPORT_STRINGS_H
#define SUPPORT_STRINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline bool begins_with(const char *text, const char *start) { return !strncmp(text, start, strlen(start)); }

static inline bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), k = strlen(end);

	return n >= k && !strcmp(text + n - k, end);
}

/* The order of an array of strings, for qsort() and bsearch(). */
static inline int string_order(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What follows a noun of which there are n. */
static inline const char *plural(uint64_t n) { return n == 1 ? "" : "s"; }

#endif
