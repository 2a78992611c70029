/* SPDX-License-Identifier: MIT */
/*
 * Call-site tables of .gcc_except_table (Itanium C++ ABI exception handling,
 * "Exception Handling Tables", 4.6; gcc/except.cc): where a call that throws
 * lands.
 */
#ifndef CODE_LSDA_H
#define CODE_LSDA_H

#include "code/cfi_file.h"

/* Addresses of the space; whether they are code at all is for fn to check. `pad`
 * 0: an exception passes through. */
typedef void lsda_call_site_fn(void *ctx, uint64_t start, uint64_t end, uint64_t pad);

/*
 * Call sites of fdes[i], in the table's order. Returns their number; 0 without
 * an LSDA; -1 when the table is malformed (fn may have seen its good part).
 */
long lsda_call_sites(const struct elf_file *f, const struct cfi_file *c, size_t i, lsda_call_site_fn *fn, void *ctx);

#endif
