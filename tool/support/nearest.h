/* SPDX-License-Identifier: MIT */
/* Finds the word of a list that a misspelled word was probably meant to be. */
#ifndef SUPPORT_NEAREST_H
#define SUPPORT_NEAREST_H

#include <stddef.h>

/* Returns the word that differs from `text` by the fewest letters that were left out, added, replaced or swapped with a
 * neighbour, or null if `text` differs from every word by more than a third of its letters. Of equally near words it
 * returns the first. `words` holds a pointer to a word every `stride` bytes, so that the words may be the first members
 * of an array of structures; a null pointer ends the list. */
const char *nearest_word(const char *text, const void *words, size_t stride);

#endif
