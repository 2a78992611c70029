/* SPDX-License-Identifier: MIT */
/*
 * Structural mutants of ELF files and of archives: one change at a time to what headers and tables
 * say of one another (types, sizes, addresses, overlaps, links, counts, order, names), each of a
 * kind that has a name. The same state gives the same mutant.
 */
#ifndef STRUCTURE_H
#define STRUCTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mutant {
	uint8_t *bytes; /* malloc'd; grows where a kind adds headers */
	size_t size;
	uint64_t random;
	char what[400]; /* the changes so far, in words */
};

unsigned structure_kinds(void);
const char *structure_kind(unsigned kind);
/* Uniform in [0, n); n > 0. */
uint32_t structure_below(struct mutant *m, uint32_t n);
/* False: there is nothing of that kind in the file, and nothing has been changed. */
bool structure_mutate(struct mutant *m, unsigned kind);

#endif
