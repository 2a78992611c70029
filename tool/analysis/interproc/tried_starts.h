/* SPDX-License-Identifier: MIT */
/* Tries candidates for starts of functions to which no known code or data refers. Each candidate is analysed by itself:
 * does the code begin and end as a function does? Used by wide_fde.c and gap_sweep.c. */
#ifndef INTERPROC_TRIED_STARTS_H
#define INTERPROC_TRIED_STARTS_H

#include "analysis/interproc/work.h"

/* A list of addresses. It is sorted, because gaps are searched in ascending order and addresses are added in the order
 * in which they are found. */
struct start_list {
	uint64_t *list;
	size_t count, capacity;
};

/* The candidates, and what has been learnt from trying them. */
struct starts {
	uint64_t *list; /* candidates; after starts_try(), those that have been accepted, sorted */
	size_t count, capacity;
	/* A padded start is an aligned address that follows filler bytes, as recognised by padding_size(). A function may
	 * begin there merely because of its place. starts_learn() decides about the lists `silent` and `foreign`. */
	struct start_list padded; /* all padded starts that were found */
	/* Padded starts whose code does not return, or returns as a function but begins without a prologue. */
	struct start_list silent;
	/* Padded starts whose code returns with the right rsp, but has changed registers that C functions preserve. */
	struct start_list foreign;
	struct start_list placed; /* starts in `list` that are accepted because of their place */
	/* What the padded starts tried so far have shown. */
	struct padding_shown shown;
	bool padded_only; /* accept only padded starts */
	struct flow flow;
};

void starts_free(struct starts *s);
/* Adds a candidate. */
void start_put(struct starts *s, uint64_t addr);
/* Adds an aligned address after filler as a candidate and as a padded start. */
void start_padded_put(struct starts *s, uint64_t addr);
/*
 * Adds as candidates the prologues in [start, end) of a code range that follow padding, data, or an instruction that
 * does not fall through. With `framed`, only prologues that set up a frame pointer are added. Without `framed`, aligned
 * addresses after int3 or zero bytes are added too (padded starts), whatever the code there: compilers put nops in
 * front of a loop or block, but int3 and zero bytes only between functions.
 */
void prologues_find(struct starts *s, const struct code_range *p, uint64_t start, uint64_t end, bool framed);
/* Does the code in [start, end) of code range `in` remove the frame that rbp points to at `start`? If so, it is no
 * function, but a common end to which several functions jump, in the frame that the FDE describes. */
bool start_leaves_frame(const struct work *w, struct flow *f, const struct code_range *in, uint64_t start,
                        uint64_t end);
/* If enough of the padded starts tried so far have proved to be functions, accepts the `silent` ones as functions as
 * well. If, in addition, enough of the proven functions do not preserve the registers that C functions preserve,
 * accepts the `foreign` ones, too. */
void starts_learn(struct starts *s);
/* Tries the candidates from index `from` on, and drops those that are not functions. The code of the last one may
 * extend up to `end`. */
void starts_try(const struct work *w, struct starts *s, const struct code_range *p, size_t from, uint64_t end);

#endif
