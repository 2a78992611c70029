/* SPDX-License-Identifier: MIT */
/*
 * Two kinds of connections between code ranges. A link says that one code range refers to an address: by a call, a tail
 * call, or by taking the address. An edge is a jump together with the abstract state that it carries. Both are kept
 * from round to round: after a round, only the links and edges out of the code ranges that it has analysed again are
 * replaced. The structs are small, since each call and each jump of a file has one.
 */
#ifndef ANALYSIS_INTERPROC_LINKS_H
#define ANALYSIS_INTERPROC_LINKS_H

#include "analysis/flow/flow.h"

/* A link, made from a flow_exit. The link's code range is the one that contains the call, tail call or reference. */
struct link {
	uint64_t target;
	/* The code ranges that contain the instruction and its target, as identities (see work.graph.place); `to` is
	 * NO_RANGE if no code range contains the target. */
	uint32_t from, to;
	/* 1 + index of the next link to the same start, as listed by links.into; 0: there is none. For EXIT_REF:
	 * flow_exit.at. */
	uint32_t next;
	uint8_t kind;  /* enum flow_exit_kind, or LINK_DROPPED */
	bool start;    /* the target is the start of `to` */
	bool outside;  /* the target is in no code range, or in one of the PLT */
	uint8_t entry; /* what the link shows about the start of `to` (ENTRY_*); 0: nothing */
};

/* The kind of a removed link that is still in the list. It names no code ranges, and is to be ignored. */
#define LINK_DROPPED 7u
_Static_assert(LINK_DROPPED > EXIT_LEFT, "it is none of enum flow_exit_kind");

/*
 * A link is direct if its target is the start of a code range of this file outside the PLT; most links are. `others`
 * lists the rest, so that a search for links that are not direct need not visit all links. `of` and `into` serve
 * searches for the links from and to one code range.
 */
struct links {
	struct link *list; /* the links from one code range are adjacent */
	size_t count, capacity;
	size_t dropped; /* number of links in `list` that are LINK_DROPPED */
	/* By identity of a code range: 1 + index in `list` of the first link from it; 0: there is none. */
	uint32_t *of;
	/* By identity of a code range: 1 + index in `list` of a link to its start, which link.next continues; 0: there
	 * is none. Links of kind EXIT_REF are not listed. */
	uint32_t *into;
	/* Indexes in `list`, ascending, of all links that were not direct when they were added. Some have become direct
	 * or were dropped since. */
	uint32_t *others;
	size_t other_count, other_capacity;
};

/* An edge, made from a flow_edge. `from` is the number of the code range that contains the jump. */
struct edge {
	uint64_t target;
	uint64_t sum;         /* checksum of the target, the misfit and the rule of the state; see edges_sum() */
	const uint8_t *state; /* the packed state in work.graph.states: equal states have equal pointers */
	uint32_t from;
	uint32_t at : 29;    /* flow_edge.at, or 0 if that does not fit 29 bits */
	uint32_t entry : 1;  /* the state is that of a function's entry (state_is_entry()) */
	uint32_t misfit : 2; /* enum flow_misfit */
};

struct edges {
	struct edge *list;
	size_t count, capacity;
};

static inline bool link_is_tail(unsigned kind) { return kind == EXIT_TAIL || kind == EXIT_PART; }

/* Is a link direct (struct links)? A direct link never ceases to be direct, since no code range is ever removed. */
static inline bool link_is_direct(const struct link *x) { return x->start && !x->outside; }

struct work;
struct range_state;

/* Appends a link to a list of a chunk, which has no `of` and `into`. */
void links_put(const struct work *w, struct links *l, const struct flow_exit *x);
/* Sets the code range that contains the target of a link to number `to` (or NO_RANGE), and updates the members that
 * depend on it. */
void link_resolve(const struct work *w, struct link *x, uint32_t to);
/* Makes space in the list for `more` further links. */
void links_reserve(struct links *l, size_t more);
/* Gives the unused space of a list back. The list is not extended afterwards. */
void links_trim(struct links *l);
/* Moves all links of `from` to the end of `l`, and counts what they show about starts. `from` is empty afterwards. */
void links_append(struct work *w, struct links *l, struct links *from);
/* Drops the links from the code ranges in the worklist of this round. */
void links_drop(struct work *w, struct links *l);
void links_free(struct links *l);
/* Returns the index of the first link from the code range with identity `id`; *end is set to the index after the last
 * link from it. */
static inline size_t links_of(const struct links *l, uint32_t id, size_t *end)
{
	size_t i = l->of[id], first = i ? i - 1 : 0;

	for (*end = first; i && *end < l->count && l->list[*end].from == id; ++*end)
		;
	return first;
}
/* Calls `take` for each link in the list to one of `count` noreturn functions, whose addresses are sorted. Some links
 * of kind EXIT_REF are left out. */
void links_to(const struct work *w, const struct links *l, const uint64_t *targets, size_t count,
              void (*take)(void *ctx, const struct link *x), void *ctx);
/* Appends an edge made from *x. `state` is the packed form of x->state in work.graph.states. */
void edges_put(struct edges *l, const struct flow_edge *x, const uint8_t *state);
/* Extends the checksum of a sequence of edges, which is 0 at first, by the next edge. The order of the edges
 * matters. */
static inline uint64_t edges_sum(uint64_t sum, const struct edge *x) { return (sum ^ x->sum) * 0x100000001b3u; }
/* Returns the index of the first edge whose target is >= addr. */
size_t edges_from(const struct edges *l, uint64_t addr);

/* The functions below update the links and edges of struct range_graph (work.h) while code ranges change. */

/* Adds a code range to work.graph.touched, if it is not there yet. */
void touched_add(struct work *w, struct range_state *s);
/* link_lists.c: resizes the arrays that are indexed by identity to the number of code ranges. The first `before`
 * elements stay; the others become 0. */
void identities_grow(struct work *w, size_t before);
/* Finds the code ranges of the links that have had none, after code ranges were added or extended. */
void links_resolve(struct work *w);

/* call_graph.c: replaces the links and edges from the code ranges of this round by those that the round has found. */
void links_replace(struct work *w);
/* Changes edge.from of all edges after code ranges were added: moved[n] is the new number of the code range that had
 * number n. */
void edges_renumber(struct work *w, const uint32_t *moved);

#endif
