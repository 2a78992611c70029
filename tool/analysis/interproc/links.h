/* SPDX-License-Identifier: MIT */
/*
 * Links (calls, tail calls, address references) and edges (jumps with an abstract state) between code ranges, kept from
 * round to round: only those of code ranges that were analysed again are replaced. The structs are small, since each
 * call and each jump of a file has one.
 */
#ifndef ANALYSIS_INTERPROC_LINKS_H
#define ANALYSIS_INTERPROC_LINKS_H

#include "analysis/flow/flow.h"

/* A flow_exit: a call, a tail call, or an address that is taken. */
struct link {
	uint64_t target;
	uint32_t from, to; /* numbers of code ranges; to: NO_RANGE where none holds the target */
	uint8_t kind;      /* enum flow_exit_kind */
	bool start;        /* the target is the start of `to` */
	bool outside;      /* no code range holds the target, or one of the PLT does */
	uint8_t entry;     /* ENTRY_*: what it says of the start of `to`; 0: nothing */
	uint32_t group;    /* of the first link of its code range: their number */
};

/* Most links are direct: to where code of this file begins. What is asked of the others only need not visit all. */
struct links {
	struct link *list; /* those of one code range are neighbours: a group */
	size_t count, room;
	size_t last;      /* links_put(): the first link of the last group */
	uint32_t *others; /* ascending: the indexes of all links that are not direct; some have become so since */
	size_t other_count, other_room;
};

/* A flow_edge. Its state is owned by the range_state of `from` (out_old, out_new). */
struct edge {
	uint64_t target;
	uint64_t sum;         /* checksum of target and rule; see edges_sum() */
	const uint8_t *state; /* packed: state_unpack() */
	uint32_t from;
	bool entry; /* state_is_entry() */
};

struct edges {
	struct edge *list;
	size_t count, room;
};

static inline bool link_is_tail(unsigned kind) { return kind == EXIT_TAIL || kind == EXIT_PART; }

/* A direct link stays one: no code range is removed. */
static inline bool link_is_direct(const struct link *x) { return x->start && !x->outside; }

/* Appends a link. */
void links_put(struct links *l, const struct flow_exit *x, const struct code_range *ranges);
/* Sets the code range that a link leads to, and what follows from it. */
void link_resolve(struct link *x, uint32_t to, const struct code_range *ranges);
/* Returns the packed size of a state in bytes; packs it to `out` (PACKED_MOST bytes) unless that is null. */
size_t state_pack(const struct state *s, uint8_t *out);
void state_unpack(const uint8_t *packed, struct state *out);
#define PACKED_MOST sizeof(struct state)

/* Appends an edge; `state`, its packed state, stays owned by the caller. */
void edges_put(struct edges *l, const struct flow_edge *x, const uint8_t *state);
/* Extends the checksum of a sequence of edges (in order, initially 0) by one edge. */
static inline uint64_t edges_sum(uint64_t sum, const struct edge *x) { return (sum ^ x->sum) * 0x100000001b3u; }
/* The index of the first edge whose target is >= addr. */
size_t edges_from(const struct edges *l, uint64_t addr);

#endif
