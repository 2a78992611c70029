/* SPDX-License-Identifier: MIT */
/* The rounds of the analysis up to the fixpoint. */
#ifndef ANALYSIS_INTERPROC_ROUNDS_H
#define ANALYSIS_INTERPROC_ROUNDS_H

#include "analysis/interproc/work.h"

/* A code range that has been marked this often while it had edges gets its incoming states joined. Real code settles
 * sooner. */
#define JOINED_FROM 8u
/* The first round that looks for recurring states; real files need only a few rounds. */
#define RECURRENCE_FROM 16u

/* fixpoint.c: runs rounds until the fixpoint is reached. */
void fixpoint_find(struct work *w);
/* Makes the code ranges whose incoming edges keep changing `joined`, and drops the edges among them. */
void edges_restart(struct work *w);
/* Frees the joined states of a code range. */
void joins_clear(struct range_state *s);
/* Frees range_rare.tails of a code range. */
void tails_clear(struct range_state *s);
/* Joins the edges *in into the joined code range p with all earlier ones since edges_restart(). Afterwards *in has one
 * edge per target, with the joined state. */
void edges_join(const struct code_range *p, struct range_state *s, struct flow_edge **in, size_t *capacity,
                size_t *count);
/* Returns a checksum of those results of a code range on which other code ranges may depend: links, edges and rows. */
uint64_t range_sum(const struct flow *f, const struct range_rows *rows);

/* round.c: puts the marked code ranges (range_state.run) into the worklist. Returns whether any of them has to be
 * analysed. */
bool worklist_collect(struct work *w);
/* Analyses the code ranges in the worklist with options.jobs threads, and collects the results. */
void round_run(struct work *w);
/* round_stages.c: updates the facts after a round, and marks the code ranges of the next round. Returns false if there
 * are none, i.e. the fixpoint is reached. */
bool round_prepare(struct work *w);

#endif
