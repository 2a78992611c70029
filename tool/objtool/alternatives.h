/* SPDX-License-Identifier: MIT */
/* The alternatives of an object, by address: which code may replace which. */
#ifndef OBJTOOL_ALTERNATIVES_H
#define OBJTOOL_ALTERNATIVES_H

#include "objtool/code_map.h"

struct alternatives {
	const struct code_map *map;
	size_t *by_from; /* replacements that have code, sorted by its address */
	size_t by_from_count;
	size_t *first;   /* for each replacement: index of its group's first byte in `bytes` */
	uint64_t *ends;  /* for each replacement: the end of the code to which it belongs */
	uint32_t *bytes; /* for each byte of each group: a value that the user keeps there */
	uint8_t *marks;  /* for each byte of the space: ALTERNATIVE_* */
};
enum { ALTERNATIVE_ORIGINAL = 1, ALTERNATIVE_REPLACEMENT = 2 };

/* The place of an address in an original or in a replacement. */
struct alternative_place {
	/* Element of `bytes`, which the original shares with the replacements that are judged together with it. */
	uint32_t *byte;
	uint64_t original; /* where the original begins */
	bool replacement;
	uint64_t after, to; /* end of the replacement, and where control continues from there */
	/* Element for the byte after a replacement that is shorter than the original; otherwise null. */
	uint32_t *filled;
};

/* The caller calls alternatives_free(). */
void alternatives_read(const struct code_map *map, struct alternatives *out);
void alternatives_free(struct alternatives *a);
/* False if the address is in neither. */
bool alternatives_find(const struct alternatives *a, uint64_t addr, struct alternative_place *out);
/* Returns the first of the replacements of the code at an address. *count is set to their number. */
const struct replacement *alternatives_of(const struct alternatives *a, uint64_t addr, size_t *count);
/* True if LINUX_IGNORE_ALTS lets a replacement be followed. The annotation names code whose replacements are not
 * followed or, in releases with groups_ignored, the very code that is not followed, an original or a replacement. */
bool alternative_is_followed(const struct alternatives *a, const struct replacement *r);
/* True if the original of some replacements ever runs, as validation assumes it. r and count are those of
 * alternatives_of(). */
bool alternative_original_runs(const struct alternatives *a, const struct replacement *r, size_t count);

#endif
