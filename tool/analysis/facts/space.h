/* SPDX-License-Identifier: MIT */
/*
 * The code space: all code of a file in one address space, so that the analysis treats linked files and object files
 * alike. In linked files its addresses are the link-time addresses. In ET_REL, where all sections begin at 0, the
 * sections get synthetic addresses one after the other.
 */
#ifndef ANALYSIS_FACTS_SPACE_H
#define ANALYSIS_FACTS_SPACE_H

#include "elf/file.h"

struct code_section {
	uint32_t section; /* number of the section in the file */
	uint64_t addr, size;
	const uint8_t *bytes;
};

struct code_space {
	struct code_section *list; /* executable sections with contents, or executable segments if the file has no sections;
	                              sorted and disjoint */
	size_t count;
	uint64_t first, span; /* all of them lie in [first, first + span) */
	uint32_t *at;         /* per section of the file: 1 + its index in `list`; 0: it is not in the list */
	uint32_t sections;    /* number of elements of `at` */
};

/* Builds the code space of a file, to be freed by space_free(). It refers to the file's bytes. */
void space_build(const struct elf_file *f, struct code_space *out);
void space_free(struct code_space *s);
/* May an address lie in the code space? Returns false for most numbers that are no addresses of code. */
static inline bool space_may_hold(const struct code_space *s, uint64_t addr) { return addr - s->first < s->span; }
/* Returns the section that contains an address, or null. */
const struct code_section *space_at(const struct code_space *s, uint64_t addr);
/* Returns the element of the list for section number `section` of the file, or null. */
const struct code_section *space_of(const struct code_space *s, uint32_t section);

#endif
