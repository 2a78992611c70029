/* SPDX-License-Identifier: MIT */
/* The table of language runtimes. A row is a struct runtime (analysis/facts/runtime.h); each runtime's functions are in
 * a file of this folder. */
#ifndef ANALYSIS_RUNTIMES_RUNTIMES_H
#define ANALYSIS_RUNTIMES_RUNTIMES_H

#include "analysis/discover/ranges.h"
#include "analysis/facts/runtime.h"

extern const struct runtime runtimes[];
extern const size_t runtime_count;

/* Appends code of a file to *out, sorted by start: with `followed` the code of runtimes with a convention, otherwise of
 * all. Returns 0, or -1 and a message (malformed); the caller frees out->list in both cases. */
int runtimes_detect(const struct elf_file *f, const struct code_space *space, bool followed, struct runtime_codes *out,
                    struct error *e);
/* Cuts the code of a file into ranges (ranges_build()), and gives those of language runtimes their conventions. Returns
 * 0, or -1 and a message (malformed); the caller calls ranges_free() in both cases. */
int runtimes_ranges(const struct elf_file *f, const struct code_space *space, const struct cfi_file *cfi,
                    struct code_ranges *out, struct error *e);
/* Returns the hooks for code with a stack of its own. Only one row has them: flow_env.runtime holds one set, and is
 * never null. */
const struct flow_runtime *runtimes_own_stack(void);
/* Does a row list `name` as the name of a noreturn function? Thread-safe. */
bool runtimes_noreturn(const char *name);

#endif
