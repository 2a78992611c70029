/* SPDX-License-Identifier: MIT */
/*
 * Numbers for pairs of words and for strings: each distinct one gets the next number, from 0 on, by a hash table. What
 * the profile counts (stacks, frames, functions) is counted by these numbers.
 */
#ifndef PROFILE_KEY_SET_H
#define PROFILE_KEY_SET_H

#include <stddef.h>
#include <stdint.h>

#define KEY_NONE UINT32_MAX /* out of memory, or (key_set_find()) not there */

struct key {
	uint64_t a, b;
};

/* Zeroed: empty. */
struct key_set {
	struct key *list; /* by number */
	size_t count, capacity;
	uint32_t *slots; /* number + 1; 0: free */
	size_t slot_count;
};

/* The number of a pair, which is added if it is new. */
uint32_t key_set_add(struct key_set *s, uint64_t a, uint64_t b);
uint32_t key_set_find(const struct key_set *s, uint64_t a, uint64_t b);
void key_set_free(struct key_set *s);

/* Strings. Zeroed: empty. */
struct string_set {
	char **list; /* by number */
	size_t count, capacity;
	uint32_t *slots;
	size_t slot_count;
};

/* The most bytes of a name that are kept: a file may have one of gigabytes. */
#define NAME_KEPT 4096u
/* Makes a name printable: bytes that are not UTF-8, and control characters, become '?'. Names come from files. */
void name_clean(char *name);
/* The number of a string, which is copied if it is new: cleaned, and its first NAME_KEPT bytes. */
uint32_t string_set_add(struct string_set *s, const char *name);
void string_set_free(struct string_set *s);

#endif
