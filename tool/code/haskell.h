/* SPDX-License-Identifier: MIT */
/*
 * Code of GHC (arch/x86/haskell.h): whether a file has some, what of it is such code, and its rows. Where the
 * file has a StgRun, the rule is that of the state in which it jumps; where it has none, as GHC's shared libraries,
 * that of the release of GHC which the names of the libraries it needs, or its own, say.
 */
#ifndef CODE_HASKELL_H
#define CODE_HASKELL_H

#include "code/flow.h"

struct work;

/* What the pieces have shown, or the file says. */
struct haskell {
	struct etch_rule rule; /* where rsp is as StgRun has left it; kind UNDEF: not known */
	bool run;              /* of a StgRun in the file */
	bool differ;           /* there are several, which differ */
	uint8_t **seen;        /* haskell_starts(): a bit for each byte of each section of the code; or null */
};

/* Before the first round: what the file says of itself. */
void haskell_open(struct work *w);
/* A piece may be StgRun: takes its rule. */
void haskell_take(struct haskell *h, const struct etch_rule *run);
/* Between two rounds: has it turned out that the file has such code? Then all that may be some is looked at again. */
void haskell_decide(struct work *w);
/* After the last: rows of what is certain to be such code. False: out of memory. */
bool haskell_rows(struct work *w);

/* Is the state at an indirect jump that in which StgRun goes to code of GHC? */
bool haskell_is_run(const struct step *in, const struct state *s, struct etch_rule *out);
/* haskell_starts.c: finds where it begins, by what the strays that are known lead to: more strays. */
int haskell_starts(struct work *w, struct error *e);
void haskell_free(struct work *w);
/* May a piece be code of GHC? That has neither .eh_frame nor entries of the PLT. */
bool haskell_may_be(const struct piece *p);

/* In a file that has such code: does some begin at an address, which lies in the code? */
bool haskell_begins(const struct flow_env *env, uint64_t addr);
/* Goes in where the code of the piece takes the address of other code of it: to return there. True: there was some. */
bool haskell_follow(struct flow *f);
#define HASKELL_TIMES 8 /* what switches lead to may refer to more, and that have switches */
/* Has such code a switch whose targets are not all known? */
bool haskell_switches(const struct flow *f);
/* Do all of its jumps leave rsp as StgRun has? A state that says no more. */
bool haskell_agree(struct flow *f, struct state *out);
/* Bytes of an info table at an offset, up to code that has been reached; 0: there is none. */
uint64_t haskell_table(const struct flow *f, uint64_t off);

#endif
