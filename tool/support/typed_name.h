/* SPDX-License-Identifier: MIT */
/* Names that a user typed: which function a name means, and which word a misspelled one was probably meant to be. */
#ifndef SUPPORT_TYPED_NAME_H
#define SUPPORT_TYPED_NAME_H

#include <stddef.h>

/* How well a function's name fits, worst first. */
enum fit {
	FIT_NONE,
	FIT_PART,  /* "ork", for work(int) */
	FIT_INNER, /* "work", "work(int)", for ns::work(int) */
	FIT_NAME,  /* "ns::work" */
	FIT_FULL,  /* "ns::work(int)" */
};

/* Returns how well `text` fits the symbol. This does not cover a C symbol that is equal to `text`: look for that
 * first. */
enum fit name_fit(const char *symbol, const char *text);

/* Returns the word that differs from `text` by the fewest letters that were left out, added, replaced or swapped with a
 * neighbour, or null if `text` differs from every word by more than a third of its letters. Of equally near words it
 * returns the first. `words` holds a pointer to a word every `stride` bytes, so that the words may be the first members
 * of an array of structures; a null pointer ends the list. */
const char *nearest_word(const char *text, const void *words, size_t stride);

#endif
