/* SPDX-License-Identifier: MIT */
/* Passes that find code which runs in the frame of other code (continuations and handlers of interpreters), and passes
 * that compare results after the last round. */
#ifndef ANALYSIS_INTERPROC_OTHER_FRAMES_H
#define ANALYSIS_INTERPROC_OTHER_FRAMES_H

#include "analysis/interproc/work.h"

/*
 * fixup_frames.c: after a fault in an instruction of an exception table, execution continues at the fixup address, in
 * the frame of that instruction. Adds a finding (ETCH-X008) for each fixup address whose faulting instructions have
 * different frames, or frames that differ from the row of the address.
 */
void fixups_compare(struct work *w);

/* observe_edges.c: drops the findings that are refuted now that all code ranges are known. */
void observe_edges(struct work *w);

/* continuations.c: finds continuations and their frames, once all other evidence has been collected. The code of a
 * continuation may pass on further continuations, so the pass is repeated, up to CONTINUATION_RUNS times. Returns
 * whether this run has found anything new. */
#define CONTINUATION_RUNS 6u
bool continuations_find(struct work *w);

/* interpreters.c: */
/* If a function stores the addresses of many labels into a table, as an interpreter does, makes a code range begin at
 * each of these labels. Called once all other evidence has been collected. */
void labels_cut(struct work *w);
/* Finds the code ranges that are handlers of an interpreter (FRAME_HANDLER), and marks those that change. */
void handlers_find(struct work *w);

#endif
