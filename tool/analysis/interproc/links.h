/* SPDX-License-Identifier: MIT */
/*
 * Links (calls, tail calls, address references) and edges (jumps with an abstract state) between code ranges. They are
 * kept from round to round: only those of code ranges that were analysed again are replaced. The structs are small,
 * since each call and each jump of a file has one.
 */
#ifndef ANALYSIS_INTERPROC_LINKS_H
#define ANALYSIS_INTERPROC_LINKS_H

#include "analysis/flow/flow.h"

/* A link, made from a flow_exit: a call, a tail call, or an address that is taken. */
struct link {
	uint64_t target;
	uint32_t from, to; /* identities of code ranges (work.graph.place); `to` is NO_RANGE where none holds the target */
	uint32_t next;     /* for `into`: the next link to the same start, + 1; 0: none. For EXIT_REF: flow_exit.at */
	uint8_t kind;      /* enum flow_exit_kind, or LINK_DROPPED */
	bool start;        /* the target is the start of `to` */
	bool outside;      /* no code range holds the target, or one of the PLT does */
	uint8_t entry;     /* ENTRY_*: what the link shows about the start of `to`; 0: nothing */
};

/* The kind of a removed link that is still in the list. It names no code ranges, and is to be ignored. */
#define LINK_DROPPED 6u

/*
 * Most links are direct: they lead to where code of this file begins. Queries about the others do not visit all links,
 * nor do queries about one code range, which use `of` and `into`.
 */
struct links {
	struct link *list; /* those of one code range are neighbours */
	size_t count, capacity;
	size_t dropped;   /* number of elements of kind LINK_DROPPED */
	uint32_t *of;     /* by identity of a code range: the index in `list` of its first link, + 1; 0: none */
	uint32_t *into;   /* likewise: a link to its start, + 1, chained by link.next; EXIT_REF is left out */
	uint32_t *others; /* ascending indexes in `list`: all links that are not direct; some have become so since, or are
	                   * dropped */
	size_t other_count, other_capacity;
};

/* An edge, made from a flow_edge. */
struct edge {
	uint64_t target;
	uint64_t sum;         /* checksum of target and rule; see edges_sum() */
	const uint8_t *state; /* in work.graph.states: equal states have equal pointers */
	uint32_t from;
	uint32_t at : 29;    /* flow_edge.at; 0 if that does not fit */
	uint32_t entry : 1;  /* state_is_entry() */
	uint32_t misfit : 2; /* enum flow_misfit */
};

struct edges {
	struct edge *list;
	size_t count, capacity;
};

static inline bool link_is_tail(unsigned kind) { return kind == EXIT_TAIL || kind == EXIT_PART; }

/* A direct link stays one: no code range is removed. */
static inline bool link_is_direct(const struct link *x) { return x->start && !x->outside; }

struct work;
struct range_state;

/* Appends a link to a list without `of` and `into`. */
void links_put(const struct work *w, struct links *l, const struct flow_exit *x);
/* Sets the code range that a link leads to, by number, and what follows from it. */
void link_resolve(const struct work *w, struct link *x, uint32_t to);
/* Makes space for so many more links. */
void links_reserve(struct links *l, size_t more);
/* Gives back the unused space of a list that grows no more. */
void links_trim(struct links *l);
/* Moves all of `from` to the end of `l`; `from` is empty afterwards. */
void links_append(struct work *w, struct links *l, struct links *from);
/* Drops the links out of the code ranges of this round. */
void links_drop(struct work *w, struct links *l);
void links_free(struct links *l);
/* Returns the index of the first link of a code range, given by identity; *end is set to the index after its last
 * one. */
static inline size_t links_of(const struct links *l, uint32_t id, size_t *end)
{
	size_t i = l->of[id], first = i ? i - 1 : 0;

	for (*end = first; i && *end < l->count && l->list[*end].from == id; ++*end)
		;
	return first;
}
/* Calls `take` for each link to one of `count` sorted noreturn functions, but not for all links of EXIT_REF. */
void links_to(const struct work *w, const struct links *l, const uint64_t *targets, size_t count,
              void (*take)(void *ctx, const struct link *x), void *ctx);
/* Appends an edge; `state` is its packed state in work.graph.states. */
void edges_put(struct edges *l, const struct flow_edge *x, const uint8_t *state);
/* Extends the checksum of a sequence of edges (in order, initially 0) by one edge. */
static inline uint64_t edges_sum(uint64_t sum, const struct edge *x) { return (sum ^ x->sum) * 0x100000001b3u; }
/* Returns the index of the first edge whose target is >= addr. */
size_t edges_from(const struct edges *l, uint64_t addr);

/* The links and edges of struct range_graph (work.h), which are kept up to date. */

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
