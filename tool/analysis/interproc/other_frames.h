/* SPDX-License-Identifier: MIT */
/* Passes over code that runs in the frame of other code (continuations, handlers, fixups), and passes that compare
 * results after the last round. */
#ifndef ANALYSIS_INTERPROC_OTHER_FRAMES_H
#define ANALYSIS_INTERPROC_OTHER_FRAMES_H

#include "analysis/interproc/work.h"

/*
 * fixup_frames.c: after a fault, execution continues at the fixup address in the frame of the faulting instruction.
 * Adds a finding for each fixup address where these frames differ from each other or from the row of that address.
 */
void fixups_compare(struct work *w);

/* observe_edges.c: drops findings that do not hold now that all code ranges are known. */
void observe_edges(struct work *w);

/* continuations.c: finds the frames of continuations, once all other evidence has been collected. The code of
 * continuations may hand on other continuations, so this runs up to CONTINUATION_RUNS times. Returns whether any
 * continuation is new. */
#define CONTINUATION_RUNS 6u
bool continuations_find(struct work *w);

/* interpreters.c: handlers of interpreters. */
/* Makes code ranges at the labels of an interpreter that stores them into a table, once all other evidence has been
 * collected. */
void labels_cut(struct work *w);
/* Marks the code ranges that are found to be handlers (FRAME_HANDLER). */
void handlers_find(struct work *w);

#endif
