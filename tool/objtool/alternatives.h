/* SPDX-License-Identifier: MIT */
/*
 * Finds, by address, the alternatives of an object: pieces of code (originals) which the kernel may overwrite by others
 * (replacements). An original and its replacements form a group.
 */
#ifndef OBJTOOL_ALTERNATIVES_H
#define OBJTOOL_ALTERNATIVES_H

#include "objtool/code_map.h"

struct alternatives {
	const struct code_map *map;
	bool access;     /* --uaccess: access to user memory is validated */
	size_t *by_from; /* indices of the replacements that have code, sorted by the address of that code */
	size_t by_from_count;
	size_t *first; /* for each replacement: index in `bytes` of the first byte of its group */
	/* For each replacement: the end of its original; in a group with several originals, of the longest one. */
	uint64_t *ends;
	uint32_t *bytes; /* for each byte of each group: a value of the user's own */
	uint8_t *marks;  /* for each byte of the code space: ALTERNATIVE_* */
};
enum { ALTERNATIVE_ORIGINAL = 1, ALTERNATIVE_REPLACEMENT = 2 };

/* An address in an original or in a replacement. */
struct alternative_place {
	/*
	 * The element of `bytes` for this address. The original and the replacements that are validated together with it
	 * share it.
	 */
	uint32_t *byte;
	uint64_t original; /* address of the original's first byte */
	bool replacement;
	uint64_t after, to; /* after: end of the replacement; to: the address at which control continues after it */
	/* The element for the byte after the replacement if this is shorter than the original; otherwise null. */
	uint32_t *filled;
};

/* The caller calls alternatives_free(). */
void alternatives_read(const struct code_map *map, bool access, struct alternatives *out);
void alternatives_free(struct alternatives *a);
/* Describes the address in *out. Returns false if it is neither in an original nor in a replacement. */
bool alternatives_find(const struct alternatives *a, uint64_t addr, struct alternative_place *out);
/* Returns the first of the replacements of the original at an address, and sets *count to their number. */
const struct replacement *alternatives_of(const struct alternatives *a, uint64_t addr, size_t *count);
/*
 * True if the annotation LINUX_IGNORE_ALTS does not exclude the replacement from validation. In releases with
 * groups_ignored the annotation is at the code that is excluded, whether original or replacement; in others it is at
 * the original whose replacements are excluded; without --uaccess these leave out stac and clac, too.
 */
bool alternative_is_followed(const struct alternatives *a, const struct replacement *r);
/*
 * True if the kernel may run the original without replacing it, as far as validation assumes. r and count are the
 * results of alternatives_of().
 */
bool alternative_original_runs(const struct alternatives *a, const struct replacement *r, size_t count);

#endif
