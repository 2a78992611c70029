/* SPDX-License-Identifier: MIT */
/*
 * What pieces say to one another, kept from round to round: what has changed is dropped and
 * put in, and nothing is sorted or looked up twice. As small as can be: there are some for each
 * call and each jump of a file.
 */
#ifndef CODE_LINKS_H
#define CODE_LINKS_H

#include "code/flow.h"

/* A flow_exit: a call, a jump, an address that is taken. */
struct link {
	uint64_t target;
	uint32_t from, to; /* pieces; to: NO_PIECE where none holds the target */
	uint8_t kind;      /* enum flow_exit_kind */
	bool start;        /* `to` begins there */
	bool outside;      /* no piece holds it, or it is of the PLT */
};

struct links {
	struct link *list;
	size_t count, room;
};

/* A flow_edge; its state is one of those of the piece that it comes from. */
struct edge {
	uint64_t target;
	uint64_t sum;         /* of target and rule: what a piece has been run with */
	const uint8_t *state; /* packed */
	uint32_t from;
	bool entry;           /* state_is_entry() */
};

struct edges {
	struct edge *list;
	size_t count, room;
};

static inline bool link_is_tail(unsigned kind) { return kind == EXIT_TAIL || kind == EXIT_PART; }

bool links_put(struct links *l, const struct flow_exit *x, const struct piece *pieces);
void link_lead(struct link *x, uint32_t to, const struct piece *pieces);
/* Bytes of a state, packed; to `out`, which has room for PACKED_MOST, or null. */
size_t state_pack(const struct state *s, uint8_t *out);
void state_unpack(const uint8_t *packed, struct state *out);
#define PACKED_MOST sizeof(struct state)

/* `state` stays the caller's. */
bool edges_put(struct edges *l, const struct flow_edge *x, const uint8_t *state);
/* The first edge to addr or behind it. */
size_t edges_from(const struct edges *l, uint64_t addr);

#endif
