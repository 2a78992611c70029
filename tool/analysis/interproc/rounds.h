/* SPDX-License-Identifier: MIT */
/* The rounds of the analysis up to the fixpoint. */
#ifndef ANALYSIS_INTERPROC_ROUNDS_H
#define ANALYSIS_INTERPROC_ROUNDS_H

#include "analysis/interproc/work.h"

/* After so many runs with edges, the incoming states of a code range are joined; real code settles sooner. */
#define JOINED_FROM 8u
/* The first round that looks for recurring states; real files need only a few rounds. */
#define RECURRENCE_FROM 16u

/* fixpoint.c: runs rounds up to the fixpoint. */
void fixpoint_find(struct work *w);
/* Drops the edges among the code ranges whose incoming edges keep changing, and makes these code ranges joined. */
void edges_restart(struct work *w);
/* Forgets the joined states of a code range. */
void joins_clear(struct range_state *s);
/* Forgets range_rare.tails. */
void tails_clear(struct range_state *s);
/* Joins the edges *in into a joined code range with all edges since edges_restart(), which leaves one edge per
 * target. */
void edges_join(const struct code_range *p, struct range_state *s, struct flow_edge **in, size_t *capacity,
                size_t *count);
/* Returns a checksum of the last results of a code range on which others may depend: links, edges, rows. */
uint64_t range_sum(const struct flow *f, const struct range_rows *rows);

/* round.c: makes the marked code ranges (range_state.run) the worklist. Returns whether any of them has to be
 * analysed. */
bool worklist_collect(struct work *w);
/* Analyses the code ranges in the worklist with options.jobs threads, and collects the results. */
void round_run(struct work *w);
/* round_prepare.c: marks the code ranges of the next round. Returns false if there are none. */
bool round_prepare(struct work *w);

#endif
