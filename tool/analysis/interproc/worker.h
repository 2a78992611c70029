/* SPDX-License-Identifier: MIT */
/* What a worker thread of a round (round.c) needs to analyse one code range after another. */
#ifndef ANALYSIS_INTERPROC_WORKER_H
#define ANALYSIS_INTERPROC_WORKER_H

#include "analysis/interproc/work.h"

/* Entries of the cache of undiscovered targets that a worker has just reported: most targets recur soon. */
#define RECENT 4096u
/* If a code range has at least MANY_EDGES incoming edges, equal ones are looked for in a cache of KNOWN entries. */
#define MANY_EDGES 256u
#define KNOWN      1024u

struct worker {
	struct work *w;
	struct flow flow;
	struct emit emit;
	struct flow_edge *in; /* edges into the current code range */
	size_t in_capacity;
	struct findings
		observed; /* findings of the current code range from an analysis whose entry state has been refuted since */
	const struct edge *known[KNOWN]; /* edges already in o->in, by hash */
	uint64_t recent[RECENT];         /* undiscovered targets already reported, by hash */
};

/*
 * range_analysis.c: analyses a code range, and repeats that as long as the results contradict the assumptions that the
 * analysis was made with.
 */
void range_analyze(struct worker *o, uint32_t number);
/*
 * Returns how a code range is assumed to begin. .eh_frame takes precedence (by its rows most parts of functions begin
 * in the entry's state too, and count as functions); where it is silent, the evidence decides.
 */
enum flow_start range_start(const struct flow_env *env, const struct code_range *p, const struct range_state *s,
                            const struct emit *e);

/* range_results.c: keeps the links and edges of the code range just analysed. */
void exits_keep(struct worker *o, struct chunk *c);
/* Stores the other results of that analysis in the code range's range_state. */
void range_keep(struct worker *o, uint32_t number);

#endif
