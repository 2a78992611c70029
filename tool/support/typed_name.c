/* SPDX-License-Identifier: MIT */
/* Names that a user typed (typed_name.h). */
#include "support/typed_name.h"

#include <stdbool.h>
#include <string.h>

#include "support/demangle.h"

/* Does the name end in "::" and then `inner`? */
static bool is_inner(const char *name, const char *inner)
{
	size_t n = strlen(name), k = strlen(inner);

	return n > k + 2 && !strcmp(name + n - k, inner) && !strncmp(name + n - k - 2, "::", 2);
}

enum fit name_fit(const char *symbol, const char *text)
{
	char full[DEMANGLED_MOST], name[DEMANGLED_MOST] = "";

	if (!demangle(symbol, DEMANGLED_FULL, full))
		return strstr(symbol, text) ? FIT_PART : FIT_NONE;
	if (!strcmp(full, text))
		return FIT_FULL;
	if (demangle(symbol, DEMANGLED_NAME, name) && !strcmp(name, text))
		return FIT_NAME;
	if (is_inner(name, text) || is_inner(full, text))
		return FIT_INNER;
	return strstr(full, text) ? FIT_PART : FIT_NONE;
}

/* ---- misspelled words -------------------------------------------------------------- */

/* Words that are longer are not compared: no command, view or option has so many letters. */
#define LETTERS 31

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* The number of letters that are left out, added, replaced or swapped with a neighbour (optimal string alignment). */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
	size_t d[LETTERS + 1][LETTERS + 1], i, j;

	for (i = 0; i <= n; i++)
		d[i][0] = i;
	for (j = 0; j <= m; j++)
		d[0][j] = j;
	for (i = 1; i <= n; i++)
		for (j = 1; j <= m; j++) {
			d[i][j] = least(d[i - 1][j - 1] + (a[i - 1] != b[j - 1]), least(d[i - 1][j], d[i][j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
		}
	return d[n][m];
}

const char *nearest_word(const char *text, const void *words, size_t stride)
{
	size_t n = strlen(text), best = n / 3 + 1;
	const char *at = words, *found = NULL, *word;

	if (n > LETTERS)
		return NULL;
	for (; memcpy(&word, at, sizeof(word)), word; at += stride) {
		size_t m = strlen(word), d = m > LETTERS ? best : distance(text, n, word, m);

		/* `n / 3` letters may differ, and in a word of two letters one; but never all letters of a word. */
		if (d < best + (n == 2) && d < n && d < m) {
			best = d;
			found = word;
		}
	}
	return found;
}
