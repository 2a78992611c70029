/* SPDX-License-Identifier: MIT */
/*
 * One table in all the shapes that the experiments of 2017 compare, and the code
 * under test: a lookup of one of them, each linked into a program of its own.
 */
#ifndef LOOKUP_H
#define LOOKUP_H

#include <etch/orc.h>
#include <etch/orc_lookup.h>

/* struct etch_orc as a compiler lays it out when nobody says `packed`. */
struct wide {
	int16_t sp_offset, bp_offset;
	uint32_t bits;
};

struct shapes {
	struct etch_block block;     /* of the file, with its map if it has one */
	struct etch_orc_table orc;   /* ip, packed entries, lookup of 256-byte blocks */
	const struct wide *wide;     /* the same entries, 8 bytes each */
	const uint32_t *odd_lookup;  /* lookup of blocks of odd_size bytes */
	uint64_t odd_size;           /* no power of two, and not known to the compiler */
};

/* What an unwinder needs of the row in force at offset - 1, where offset is that of a
 * return address: cfa_off | bp_off << 32 | cfa << 48 | (is bp saved) << 56. */
uint64_t probe(const struct shapes *s, uint64_t offset);
extern const char probe_name[];
extern const int probe_map; /* does it answer for return addresses only? */

#endif
