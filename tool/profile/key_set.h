/* SPDX-License-Identifier: MIT */
/*
 * Assigns numbers to pairs of words and to strings: a hash table gives each distinct one the next number, from 0 on.
 * The profile counts stacks, frames and functions by these numbers.
 */
#ifndef PROFILE_KEY_SET_H
#define PROFILE_KEY_SET_H

#include <stddef.h>
#include <stdint.h>

#define KEY_NONE UINT32_MAX /* out of memory, or for key_set_find(): not in the set */

struct key {
	uint64_t a, b;
};

/* A set of pairs. A zeroed structure is empty. */
struct key_set {
	struct key *list; /* by number */
	size_t count, capacity;
	uint32_t *slots; /* number + 1; 0: free */
	size_t slot_count;
};

/* Returns the number of a pair, which key_set_add() adds if it is new. */
uint32_t key_set_add(struct key_set *s, uint64_t a, uint64_t b);
uint32_t key_set_find(const struct key_set *s, uint64_t a, uint64_t b);
void key_set_free(struct key_set *s);

/* A set of strings. A zeroed structure is empty. */
struct string_set {
	char **list; /* by number */
	size_t count, capacity;
	uint32_t *slots;
	size_t slot_count;
};

/* The greatest number of bytes of a name that are kept: a file may have a name of gigabytes. */
#define NAME_KEPT 4096u
/* Makes a name printable: bytes that are not UTF-8, and control characters, become '?'. Names come from files. */
void name_clean(char *name);
/* Returns the number of a string. If it is new, its first NAME_KEPT bytes are copied and cleaned. */
uint32_t string_set_add(struct string_set *s, const char *name);
void string_set_free(struct string_set *s);

#endif
