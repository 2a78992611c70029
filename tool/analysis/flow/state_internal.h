/* SPDX-License-Identifier: MIT */
/* Declarations for state_step.c (the transfer function), state_join.c (join, refinement), state_frames.c (frames that
 * rbp points to) and state_rules.c (unwind rules made from states or compared with them). */
#ifndef ANALYSIS_FLOW_STATE_INTERNAL_H
#define ANALYSIS_FLOW_STATE_INTERNAL_H

#include "analysis/flow/state.h"

#include <string.h>

#define RSP ETCH_REG_RSP
#define RBP ETCH_REG_RBP

#define VALUE_NONE ((struct value){0})

static inline uint16_t bit(unsigned r) { return r < 16 ? (uint16_t)(1u << r) : 0; }

static inline struct value value_of(uint8_t kind, uint8_t reg, int32_t off)
{
	return (struct value){.off = off, .kind = kind, .reg = reg};
}

static inline bool value_same(struct value a, struct value b)
{
	return a.kind == b.kind && a.reg == b.reg && a.off == b.off && a.most == b.most;
}

/* Returns v + n if v is an address or a number. Returns VALUE_NONE for other kinds of values, and if the sum does not
 * fit in 32 bits (it never wraps around). */
static inline struct value value_moved(struct value v, int64_t n)
{
	int64_t off = v.off + n;

	if ((v.kind != VALUE_CFA && v.kind != VALUE_ALIGNED && v.kind != VALUE_CONST && v.kind != VALUE_PLACE) ||
	    off < INT32_MIN || off > INT32_MAX || n < INT32_MIN || n > INT32_MAX ||
	    ((v.kind == VALUE_CONST || v.kind == VALUE_PLACE) && off < 0))
		return VALUE_NONE;
	v.off = (int32_t)off;
	return v;
}

static inline bool is_address(struct value v) { return v.kind == VALUE_CFA || v.kind == VALUE_ALIGNED; }

/* Is a value an address in the frame, or one that the caller needs back? Unwind rules are made only from such values;
 * states hold other values only while the analysis follows constants. */
static inline bool value_is_plain(struct value v)
{
	return is_address(v) || (v.kind == VALUE_ENTRY && (v.reg == REG_RA || (STEP_CALLEE_SAVED >> v.reg & 1)));
}

/* Returns the members `at`, `aligned` and `zero` of a slot as one number, so that one comparison tells whether two
 * slots are at the same place. */
static inline uint64_t slot_place(const struct slot *x)
{
	uint64_t place;

	_Static_assert(offsetof(struct slot, value) == sizeof(place), "struct slot begins with where it is, and zeros");
	memcpy(&place, x, sizeof(place));
	return place;
}

/* Returns the slot at an address, or null. */
static inline struct slot *slot_at(const struct state *s, struct value address)
{
	const struct slot wanted = {.at = address.off, .aligned = address.kind == VALUE_ALIGNED};
	uint64_t place = slot_place(&wanted);
	unsigned i;

	for (i = 0; i < s->slot_count; i++)
		if (slot_place(&s->slot[i]) == place)
			return (struct slot *)&s->slot[i];
	return NULL;
}

static inline void slot_drop(struct state *s, unsigned i) { s->slot[i] = s->slot[--s->slot_count]; }

static inline struct value slot_load(const struct state *s, struct value address)
{
	const struct slot *at = is_address(address) ? slot_at(s, address) : NULL;

	return at ? at->value : VALUE_NONE;
}

/* state_step.c: forgets the address of the realigned frame, and all values and slots that are relative to it. */
void state_unalign(struct state *s);

/* state_frames.c. Called after a push of v, only with ABI_FRAMES_BY_RBP. If v is the return address and rsp was
 * unknown, the push begins a frame, and rsp is known from there on. */
void state_pushed(struct state *s, struct value v);
/* Adjusts the state to a store to an unknown word above rsp. */
void state_stored_among(struct state *s);
/* Adjusts the state after a load of rbp from the address `from`. Called only with ABI_HANDLER. */
void state_rbp_loaded(struct state *s, struct value from);

#endif
