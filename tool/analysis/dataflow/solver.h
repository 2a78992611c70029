/* SPDX-License-Identifier: MIT */
/*
 * The worklist solver of the dataflow analyses. It iterates transfer functions over the nodes of a graph (instructions,
 * basic blocks) until no state changes. Its domains are unwind states (flow_walk.c), addresses of etched objects
 * (track_solve.c), live registers and flags (clobbers.c, flags.c), arguments that reach the kernel (kernel_reach.c),
 * paths with different frames (observe_meet.c) and the direction flag (observe_flag.c).
 *
 * Some analyses have a loop of their own, for a reason that each gives at its head:
 *
 *  - they visit each instruction once, so that there is nothing to iterate: frame_slots.c, flags.c (its readers),
 *    track_detour.c, own_stack_starts.c, site/start_up_code.c;
 *  - they judge whole paths, whose states are not joined: continuation_walk.c, objtool's stack_walk.c and uaccess.c;
 *  - they sweep an array backward until nothing changes: tails.c;
 *  - they iterate over the code ranges of a file in parallel: fixpoint.c.
 *
 * An analysis is a domain. It keeps the state of each node itself, and enumerates the edges itself, since the graph may
 * change while it is solved: a jump table is understood, a call turns out to be noreturn. Initial states are passed to
 * the entry nodes (in a backward analysis, to the exits) before dataflow_solve(), and between two calls of it.
 *
 * The iteration ends if join() only ever moves up a lattice of finite height; each domain has to ensure that.
 *
 * The functions are inline and a domain is a constant, so the compiler turns calls through it into direct ones.
 */
#ifndef ANALYSIS_DATAFLOW_SOLVER_H
#define ANALYSIS_DATAFLOW_SOLVER_H

#include "analysis/dataflow/worklist.h"

/* The functions of an analysis. `ctx` is its data, as given to dataflow_solve(). */
struct dataflow_domain {
	/* Joins a state that arrives along an edge into the one at `node`. Returns true if that one has changed, so that
	 * the node has to be visited (again). */
	bool (*join)(void *ctx, uint32_t node, const void *state);
	/* Computes the state after `node` from the one at it, and passes it on by dataflow_pass() along each edge. */
	void (*transfer)(void *ctx, uint32_t node);
	/* Returns the rank of a node; nodes of a lower rank are visited first. Null: the node that changed last is visited
	 * first. */
	uint32_t (*rank)(const void *ctx, uint32_t node);
	/* Is the result decided, or useless, before the fixpoint? May be null. */
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

/* Passes a state to a node. */
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
