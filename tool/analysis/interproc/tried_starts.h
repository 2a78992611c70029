/* SPDX-License-Identifier: MIT */
/* Tries candidates for starts of functions to which nothing is known to lead, one by one: when the code from there on
 * is analysed by itself, does it begin and end as a function does? Used by wide_fde.c and gap_sweep.c. */
#ifndef INTERPROC_TRIED_STARTS_H
#define INTERPROC_TRIED_STARTS_H

#include "analysis/interproc/work.h"

/* Addresses in the order in which they were found. They are sorted, since the gaps of a file are looked through in
 * order. */
struct start_list {
	uint64_t *list;
	size_t count, capacity;
};

struct starts {
	uint64_t *list; /* sorted by starts_try() */
	size_t count, capacity;
	/* A function may begin at an aligned address after filler (padding_size()), by its place in the file. The following
	 * lists hold such addresses; starts_learn() judges what the code there says. */
	struct start_list padded; /* all that were found */
	struct start_list silent; /* those whose code does not return, or does but begins without a prologue */
	struct start_list
		foreign; /* those whose code returns with the right rsp, but without the registers that C preserves */
	struct start_list placed; /* those that are also in `list` */
	struct padding_shown shown;
	bool padded_only; /* keep only padded starts */
	struct flow flow;
};

void starts_free(struct starts *s);
void start_put(struct starts *s, uint64_t addr);
/* Adds an aligned address after filler. */
void start_padded_put(struct starts *s, uint64_t addr);
/*
 * Adds the prologues in [start, end) of a code range that follow padding, data or an instruction that does not fall
 * through. With `framed`, only those with a frame pointer are added. Without it, so is any aligned address after int3
 * or zero bytes: compilers put nops in front of a loop or a block, but these only between functions.
 */
void prologues_find(struct starts *s, const struct code_range *p, uint64_t start, uint64_t end, bool framed);
/* Does the code in [start, end) of a code range leave the frame that rbp points to at `start`? Then it is no function,
 * but the end that several functions share and jump to; the FDE describes their frame. */
bool start_leaves_frame(const struct work *w, struct flow *f, const struct code_range *in, uint64_t start,
                        uint64_t end);
/* Draws the conclusions from what the padded starts tried so far have shown, and takes the silent ones for functions if
 * that allows it. */
void starts_learn(struct starts *s);
/* Drops the candidates from index `from` on that are no functions; the last one may reach up to `end`. */
void starts_try(const struct work *w, struct starts *s, const struct code_range *p, size_t from, uint64_t end);

#endif
