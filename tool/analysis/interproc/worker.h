/* SPDX-License-Identifier: MIT */
/* What a worker thread of a round (round.c) needs to analyse one code range after the other. */
#ifndef ANALYSIS_INTERPROC_WORKER_H
#define ANALYSIS_INTERPROC_WORKER_H

#include "analysis/interproc/work.h"

/* Entries of the cache of undiscovered targets that a worker has just reported: most targets recur soon. */
#define RECENT 4096u
/* Edges into one code range from which on equal ones are looked for, and entries of the cache by which they are found.
 */
#define MANY_EDGES 256u
#define KNOWN      1024u

struct worker {
	struct work *w;
	struct flow flow;
	struct emit emit;
	struct flow_edge *in; /* edges into the current code range */
	size_t in_capacity;
	struct findings observed;        /* of the current code range, analysed from an entry that has been refuted since */
	const struct edge *known[KNOWN]; /* edges in o->in, by hash */
	uint64_t recent[RECENT];         /* undiscovered targets already reported, by hash */
};

/*
 * range_analysis.c: analyses a code range; again as long as the results contradict the assumptions that it was analysed
 * with.
 */
void range_analyze(struct worker *o, uint32_t number);
/*
 * How a code range is assumed to begin. .eh_frame takes precedence (most parts of functions begin in the entry's state
 * by its rows too, and count as functions); where it is silent, the evidence decides.
 */
enum flow_start range_start(const struct flow_env *env, const struct code_range *p, const struct range_state *s,
                            const struct emit *e);

/* range_results.c: keeps the links and edges of the code range just analysed. */
void exits_keep(struct worker *o, struct chunk *c);
/* Stores its other results in its range_state. */
void range_keep(struct worker *o, uint32_t number);

#endif
