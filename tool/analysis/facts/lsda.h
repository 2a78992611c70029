/* SPDX-License-Identifier: MIT */
/*
 * Call-site tables of LSDAs in .gcc_except_table: from a call that throws to its landing pad. Format: Itanium C++ ABI,
 * "Exception Handling Tables", 4.6; gcc/except.cc.
 */
#ifndef ANALYSIS_FACTS_LSDA_H
#define ANALYSIS_FACTS_LSDA_H

#include "analysis/facts/cfi_file.h"

/* A call site [start, end), in addresses of the code space; the callback must check whether they are code. `pad` 0:
 * there is no landing pad. */
typedef void lsda_call_site_fn(void *ctx, uint64_t start, uint64_t end, uint64_t pad);

/*
 * Calls fn for each call site of fdes[i], in the table's order. Returns their number; 0 without an LSDA; -1 if the
 * table is malformed, after calls for the entries before the error.
 */
long lsda_call_sites(const struct elf_file *f, const struct cfi_file *c, size_t i, lsda_call_site_fn *fn, void *ctx);

#endif
