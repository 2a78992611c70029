/* SPDX-License-Identifier: MIT */
/* The state of a worker thread of a round (round.c), which analyses one code range after another. */
#ifndef ANALYSIS_INTERPROC_WORKER_H
#define ANALYSIS_INTERPROC_WORKER_H

#include "analysis/interproc/work.h"

/* Size of the cache of undiscovered targets that a worker has reported: most targets soon recur. */
#define RECENT 4096u
/* If a code range has more than MANY_EDGES incoming edges, a cache of KNOWN entries is used to skip equal ones. */
#define MANY_EDGES 256u
#define KNOWN      1024u

struct worker {
	struct work *w;
	struct flow flow;
	struct emit emit;
	struct flow_edge *in; /* edges into the current code range */
	size_t in_capacity;
	/* Findings of the current code range from an analysis that assumed a function's entry, which was refuted
	 * since. */
	struct findings observed;
	const struct edge *known[KNOWN]; /* hash table of the edges that have been unpacked into `in` */
	uint64_t recent[RECENT];         /* hash table of the undiscovered targets that have been reported */
};

/*
 * range_analysis.c: analyses a code range, and repeats the analysis under changed assumptions as long as the results
 * contradict the assumptions.
 */
void range_analyze(struct worker *o, uint32_t number);
/*
 * Returns how a code range is assumed to begin. If .eh_frame has a row for the start, it decides, unless jumps or calls
 * contradict it (refuted_starts.c). By .eh_frame most parts of functions begin in the state of an entry too, and count
 * as functions. Without a row, the evidence decides.
 */
enum flow_start range_start(const struct flow_env *env, const struct code_range *p, const struct range_state *s,
                            const struct emit *e);

/* range_results.c: stores the links and edges from the code range just analysed in the chunk. */
void exits_keep(struct worker *o, struct chunk *c);
/* Stores the other results of the analysis in the range_state of the code range. */
void range_keep(struct worker *o, uint32_t number);

#endif
