/* SPDX-License-Identifier: MIT */
/* Alternatives of an object, by address: which code may stand in the place of which. */
#ifndef OBJTOOL_ALTERNATIVES_H
#define OBJTOOL_ALTERNATIVES_H

#include "objtool/code_map.h"

struct alternatives {
	const struct code_map *map;
	size_t *by_from; /* replacements with code, by its address */
	size_t by_from_count;
	size_t *first;   /* per replacement: index of its group's first byte in `bytes` */
	uint64_t *ends;  /* per replacement: the end of the code that it belongs to */
	uint32_t *bytes; /* for the user, per byte of each group */
	uint8_t *marks;  /* per byte of the space: ALTERNATIVE_* */
};
enum { ALTERNATIVE_ORIGINAL = 1, ALTERNATIVE_REPLACEMENT = 2 };

/* Where an address of an original or a replacement lies. */
struct alternative_place {
	uint32_t *byte;    /* of `bytes`: the same for the original and the replacements that are judged together */
	uint64_t original; /* where the original begins */
	bool replacement;
	uint64_t behind, to; /* a replacement's end, and where control goes on from there */
	uint32_t *filled;    /* the byte after a replacement that is shorter than the original, or null */
};

/* alternatives_free() when done. */
void alternatives_read(const struct code_map *map, struct alternatives *out);
void alternatives_free(struct alternatives *a);
/* False: neither. */
bool alternatives_find(const struct alternatives *a, uint64_t addr, struct alternative_place *out);
/* The first of the replacements of the code at an address; *count: how many. */
const struct replacement *alternatives_of(const struct alternatives *a, uint64_t addr, size_t *count);
/* Is a replacement to be followed, by LINUX_IGNORE_ALTS? That names the code whose replacements are not; in releases
 * with groups_ignored, the code that is not, an original or a replacement. */
bool alternative_is_followed(const struct alternatives *a, const struct replacement *r);
/* Does the original of replacements ever run, by what validation assumes? r, count: as of alternatives_of(). */
bool alternative_original_runs(const struct alternatives *a, const struct replacement *r, size_t count);

#endif
