/* SPDX-License-Identifier: MIT */
/* Candidates for starts of functions that nothing is known to lead to, tried one by one: analysed by itself, does the
 * code from there on begin and end as a function does? For wide_fde.c and gap_sweep.c. */
#ifndef INTERPROC_TRIED_STARTS_H
#define INTERPROC_TRIED_STARTS_H

#include "analysis/interproc/work.h"

struct starts {
	uint64_t *list; /* sorted by starts_try() */
	size_t count, room;
	struct flow flow;
};

void starts_free(struct starts *s);
void start_put(struct starts *s, uint64_t addr);
/* Adds the prologues in [start, end) of a code range that lie behind padding, data or an instruction that does not fall
 * through; `framed`: only those with a frame pointer. */
void prologues_find(struct starts *s, const struct code_range *p, uint64_t start, uint64_t end, bool framed);
/* Does the code in [start, end) of a code range leave the frame that rbp points to at `start`? Then it is no function,
 * but the end of some, which jump to it; their frame is described by the FDE. */
bool start_leaves_frame(const struct work *w, struct flow *f, const struct code_range *in, uint64_t start,
                        uint64_t end);
/* Drops the candidates from index `from` on that are no functions; the last one may reach up to `end`. */
void starts_try(const struct work *w, struct starts *s, const struct code_range *p, size_t from, uint64_t end);

#endif
