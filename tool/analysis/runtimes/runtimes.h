/* SPDX-License-Identifier: MIT */
/* The table of language runtimes. Each row is a struct runtime (analysis/facts/runtime.h). The functions of each
 * runtime are in a file of this folder. */
#ifndef ANALYSIS_RUNTIMES_RUNTIMES_H
#define ANALYSIS_RUNTIMES_RUNTIMES_H

#include "analysis/discover/ranges.h"
#include "analysis/facts/runtime.h"

extern const struct runtime runtimes[];
extern const size_t runtime_count;

/* Appends the code in a file that belongs to language runtimes to *out, and sorts *out by start. With `followed`, only
 * includes runtimes that have a convention or list their functions. Returns 0, or -1 with a message in *e (malformed);
 * the caller frees out->list in both cases. */
int runtimes_detect(const struct elf_file *f, const struct code_space *space, bool followed, struct runtime_codes *out,
                    struct error *e);
/* Divides the code of a file into code ranges (ranges_build()), and sets the conventions of those that belong to
 * language runtimes. Returns 0, or -1 with a message in *e (malformed); the caller calls ranges_free() in both
 * cases. */
int runtimes_ranges(const struct elf_file *f, const struct code_space *space, const struct cfi_file *cfi,
                    struct code_ranges *out, struct error *e);
/* Returns the hooks for code with a stack of its own, which is never null. Only one row of the table may have them,
 * because flow_env.runtime holds one set. */
const struct flow_runtime *runtimes_own_stack(void);
/* Does some row of the table list `name` as that of a noreturn function? Thread-safe. */
bool runtimes_noreturn(const char *name);

#endif
