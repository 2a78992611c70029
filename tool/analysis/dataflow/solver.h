/* SPDX-License-Identifier: MIT */
/*
 * The worklist solver of the dataflow analyses. It applies transfer functions to the nodes of a graph (instructions,
 * basic blocks) until no state changes any more. These analyses use it: unwind states (flow_walk.c), addresses of
 * etched objects (track_solve.c), live registers and flags (clobbers.c, flags.c), arguments that reach the kernel
 * (kernel_reach.c), paths with different frames (observe_meet.c) and the direction flag (observe_flag.c).
 *
 * Other analyses have a loop of their own; the head of each file says why:
 *
 *  - they visit each instruction once, so nothing is iterated: frame_slots.c, flags.c (for the readers of flags),
 *    track_detour.c, own_stack_starts.c, site/start_up_code.c;
 *  - they examine whole paths, whose states must not be joined: continuation_walk.c, objtool's stack_walk.c and
 *    uaccess.c;
 *  - they sweep an array backward until nothing changes: tails.c;
 *  - they iterate over the code ranges of a file in parallel: fixpoint.c.
 *
 * To the solver, an analysis is a struct dataflow_domain. The analysis itself stores the states of the nodes and
 * enumerates the edges, since the graph may change during the iteration: a jump table is understood, or a call turns
 * out to be noreturn. It passes initial states to the entry nodes (in a backward analysis, to the exits) before
 * dataflow_solve(), or between two calls of it.
 *
 * The iteration ends if join() only ever moves a state up a lattice of finite height. Each domain has to ensure that.
 *
 * The functions are inline and a domain is a constant, so the compiler turns calls through it into direct ones.
 */
#ifndef ANALYSIS_DATAFLOW_SOLVER_H
#define ANALYSIS_DATAFLOW_SOLVER_H

#include "analysis/dataflow/worklist.h"

/* The functions of an analysis. `ctx` is the data of the analysis, as given to dataflow_solve(). */
struct dataflow_domain {
	/* Joins a state that arrives along an edge into the state at `node`. Returns true if the state at `node` has
	 * changed, so that the node has to be visited (again). */
	bool (*join)(void *ctx, uint32_t node, const void *state);
	/* Computes the state after `node` from the state at `node`, and passes it along each edge by dataflow_pass(). */
	void (*transfer)(void *ctx, uint32_t node);
	/* Returns the rank of a node; nodes of a lower rank are visited first. If `rank` is null, the node that was added
	 * to the worklist last is visited first. */
	uint32_t (*rank)(const void *ctx, uint32_t node);
	/* Returns true to stop before the fixpoint, because the result is already decided or has become useless. May be
	 * null. */
	bool (*stops)(const void *ctx);
};

/* Adds a node to the worklist, whatever its state. */
static inline void dataflow_visit(const struct dataflow_domain *d, struct worklist *l, void *ctx, uint32_t node)
{
	if (d->rank)
		worklist_push_ranked(l, node, d->rank(ctx, node));
	else
		worklist_push(l, node);
}

/* Passes a state to a node: joins it into the node's state, and has the node visited if that has changed. */
static inline void dataflow_pass(const struct dataflow_domain *d, struct worklist *l, void *ctx, uint32_t node,
                                 const void *state)
{
	if (d->join(ctx, node, state))
		dataflow_visit(d, l, ctx, node);
}

/* Visits nodes until the worklist is empty, which is the fixpoint of what has been passed so far, or until the domain
 * stops. */
static inline void dataflow_solve(const struct dataflow_domain *d, struct worklist *l, void *ctx)
{
	while (l->count && !(d->stops && d->stops(ctx)))
		d->transfer(ctx, d->rank ? worklist_pop_ranked(l) : worklist_pop(l));
}

#endif
