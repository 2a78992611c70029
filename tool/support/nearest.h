/* SPDX-License-Identifier: MIT */
/* The word of a list that a misspelled one was probably meant to be. */
#ifndef SUPPORT_NEAREST_H
#define SUPPORT_NEAREST_H

#include <stddef.h>

/* The word that `text` differs from by the fewest letters that were left out, added, replaced or swapped with a
 * neighbour; null if it differs from each by more than a third of its letters. Of equally near words it is the first.
 * `words` begins with a pointer to a word every `stride` bytes, so that a list may be a member of structures; a null
 * pointer ends it. */
const char *nearest_word(const char *text, const void *words, size_t stride);

#endif
