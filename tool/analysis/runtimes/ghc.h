/* SPDX-License-Identifier: MIT */
/*
 * Hooks of the flow analysis for Haskell code made by GHC (arch/x86/ghc_code.h), one code range at a time.
 * analysis/interproc/ghc_rows.c decides which code ranges of a file are such code, and makes their rows.
 */
#ifndef ANALYSIS_RUNTIMES_GHC_H
#define ANALYSIS_RUNTIMES_GHC_H

#include "analysis/flow/flow.h"

/* For flow_env.runtime. */
extern const struct flow_runtime ghc_flow;

/* May a range be code of GHC? Such code has no .eh_frame, and is no PLT entry. */
bool ghc_may_be(const struct code_range *p);
/* Does code of GHC begin at an address of the code space, behind an info table? False in files without such code. */
bool ghc_begins(const struct flow_env *env, uint64_t addr);

#endif
