/* SPDX-License-Identifier: MIT */
/* Finds the word of a list that a misspelled word was probably meant to be (nearest.h). */
#include "support/nearest.h"

#include <string.h>

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
