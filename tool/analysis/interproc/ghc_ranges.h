/* SPDX-License-Identifier: MIT */
/*
 * Code of GHC (arch/x86/ghc_code.h) in a file: whether it has some, which code ranges are such code, and their rows.
 * Where the file has a StgRun, the rule is that of the state in which StgRun jumps to Haskell code. Where it has none,
 * as in GHC's shared libraries, the rule is that of the GHC release named by DT_NEEDED or DT_SONAME.
 */
#ifndef ANALYSIS_INTERPROC_GHC_RANGES_H
#define ANALYSIS_INTERPROC_GHC_RANGES_H

#include "analysis/runtimes/ghc.h"
#include "support/error.h"

struct work;

/* What is known of the GHC code of a file, from its dynamic segment and from the code. */
struct ghc_code {
	struct etch_rule rule; /* the rule where rsp is as StgRun left it; kind UNDEF: unknown */
	bool run;              /* `rule` is from a StgRun in the file */
	bool differ;           /* there are several rules, which differ: none is used */
	uint8_t **seen;        /* ghc_starts(): by code section, a bit for each byte that was followed; or null */
};

/* Before the first round: reads the GHC release from the dynamic segment. */
void ghc_open(struct work *w);
/* Takes the rule `run` of a code range that is StgRun. Not thread-safe: the caller holds work.lock. */
void ghc_take(struct ghc_code *h, const struct etch_rule *run);
/* Between two rounds: where it has turned out whether the file has GHC code, marks all that may be such code. */
void ghc_decide(struct work *w);
/* After the last round: rows of what is certain to be GHC code; none for what may be either. */
void ghc_rows(struct work *w);
/* ghc_starts.c: adds the starts of GHC code that are reached from undiscovered targets to these. */
void ghc_starts(struct work *w);
void ghc_free(struct work *w);

#endif
