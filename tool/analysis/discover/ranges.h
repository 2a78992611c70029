/* SPDX-License-Identifier: MIT */
/*
 * Cuts the code of a file into code ranges. Their sources, in order of precedence: PLT entries; FDEs; function symbols,
 * init and fini arrays, runtimes' tables of functions and the entry point; the sections .init and .fini.
 */
#ifndef ANALYSIS_DISCOVER_RANGES_H
#define ANALYSIS_DISCOVER_RANGES_H

#include "analysis/discover/code_range.h"
#include "analysis/facts/cfi_file.h"

/* The code ranges of a file. */
struct code_ranges {
	struct code_range *list; /* sorted by start, none overlap */
	size_t count, capacity;
	uint64_t *entries; /* addresses of function symbols inside code ranges, sorted */
	size_t entry_count;
};

/* Fills *out, to be freed by ranges_free(). codes: what language runtimes say of the code; their tables of functions
 * are a source. */
void ranges_build(const struct elf_file *f, const struct code_space *space, const struct cfi_file *cfi,
                  const struct runtime_codes *codes, struct code_ranges *out);
/*
 * Adds an open code range at each of the sorted addresses that lies in none. It ends at the next code range, the next
 * address, or the section's end. Returns the number of ranges added. moved[i] becomes the new index of range i.
 */
size_t ranges_add(struct code_ranges *p, const struct code_space *space, const uint64_t *addrs, size_t count,
                  uint32_t *moved);
void ranges_free(struct code_ranges *p);

#endif
