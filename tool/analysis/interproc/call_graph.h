/* SPDX-License-Identifier: MIT */
/* Keeps the links and edges of struct range_graph, which say how code ranges lead to each other, up to date. */
#ifndef ANALYSIS_INTERPROC_CALL_GRAPH_H
#define ANALYSIS_INTERPROC_CALL_GRAPH_H

#include "analysis/interproc/work.h"

/* Adds a code range to work.graph.touched. */
void touched_add(struct work *w, struct range_state *s);
/* link_lists.c: makes space for the facts by identity of all code ranges; the first `before` of them have it
 * already. */
void identities_grow(struct work *w, size_t before);
/* Updates links after code ranges were added or extended. */
void links_resolve(struct work *w);

/* call_graph.c: replaces the links and edges from the code ranges of this round by their new ones. */
void links_replace(struct work *w);
/* Updates edges after code ranges were added. moved: the new number of each old code range. */
void edges_renumber(struct work *w, const uint32_t *moved);

#endif
