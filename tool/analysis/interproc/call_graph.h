/* SPDX-License-Identifier: MIT */
/* How code ranges lead to each other: the links and edges of struct range_graph, kept up to date. */
#ifndef ANALYSIS_INTERPROC_CALL_GRAPH_H
#define ANALYSIS_INTERPROC_CALL_GRAPH_H

#include "analysis/interproc/work.h"

/* Adds a code range to work.graph.touched. */
void touched_add(struct work *w, struct range_state *s);
/* link_lists.c: makes room for facts by identity of all code ranges, `before` of which had it already. */
void identities_grow(struct work *w, size_t before);
/* Updates links after code ranges were added or extended. */
void links_resolve(struct work *w);

/* call_graph.c: replaces the links and edges from the code ranges of this round by their new ones. */
void links_replace(struct work *w);
/* Updates edges after code ranges were added. moved: the new number of each old code range. */
void edges_renumber(struct work *w, const uint32_t *moved);

#endif
