/* SPDX-License-Identifier: MIT */
/*
 * States in code whose callers find their frames by rbp (convention.frames_by_rbp). Before a tail call, such code may
 * replace its arguments on the stack by others, whose number is in a register. To do so it pops the return address,
 * moves rsp, and pushes the return address again. From this push on, the frame is as at a function's entry.
 *
 * Also states in the handlers of an interpreter (interproc/interpreters.c), whose frames rbp points to. For a tail
 * call, a handler first makes the callee's frame on top of the stack, with a copy of the return address. Then it copies
 * this frame over its own frame, so that both end at the same address.
 */
#include "analysis/flow/state_internal.h"

#include <string.h>

/* Begins a frame that has only the return address, `above` bytes above rsp, and forgets all values and slots that are
 * relative to the old CFA. */
static void frame_begin(struct state *s, int32_t above)
{
	unsigned r;

	for (r = 0; r < 16; r++)
		if (is_address(s->reg[r]))
			s->reg[r] = VALUE_NONE;
	s->align = 0;
	s->slot_count = 1;
	s->lowest = -8;
	memset(&s->slot[0], 0, sizeof(s->slot[0]));
	s->slot[0].at = -8;
	s->slot[0].value = value_of(VALUE_ENTRY, REG_RA, 0);
	s->reg[RSP] = value_of(VALUE_CFA, 0, -8 - above);
}

void state_pushed(struct state *s, struct value v)
{
	if (s->reg[RSP].kind != VALUE_CFA && value_is_entry(v, REG_RA) && state_has_callers_rbp(s))
		frame_begin(s, 0);
}

/* Such a store moves the words of the frame, and so perhaps the return address. From then on no slot is known to hold
 * that. */
void state_stored_among(struct state *s)
{
	unsigned i = 0;

	while (state_has_callers_rbp(s) && i < s->slot_count)
		if (value_is_entry(s->slot[i].value, REG_RA))
			slot_drop(s, i);
		else
			i++;
}

/* Adds a slot at CFA + at that holds the value which register `reg` had at the entry. */
static void entry_put(struct state *s, int32_t at, unsigned reg)
{
	struct slot *x = &s->slot[s->slot_count++];

	memset(x, 0, sizeof(*x));
	x->at = at;
	x->value = value_of(VALUE_ENTRY, (uint8_t)reg, 0);
}

void state_handler(struct state *s)
{
	memset(s, 0, offsetof(struct state, slot));
	s->reg[RBP] = value_of(VALUE_CFA, 0, -16);
	s->known = bit(RBP) | bit(RSP);
	s->lowest = -16;
	s->constants = EFFECT_CONSTANT;
	s->weak = true;
	entry_put(s, -8, REG_RA);
	entry_put(s, -16, RBP);
}

/* Sets the state after a load of rbp from memory outside of the frame. Code that catches an exception loads the frame
 * in which execution continues this way. */
static void frame_switch(struct state *s)
{
	struct state was = {.frame = s->frame, .abi_flags = s->abi_flags, .constants = s->constants, .dead = s->dead};

	state_handler(s);
	s->frame = was.frame;
	s->abi_flags = was.abi_flags;
	s->constants = was.constants;
	s->dead = was.dead;
}

void state_rbp_loaded(struct state *s, struct value from)
{
	struct value sp = s->reg[RSP];
	unsigned i;

	if (!is_address(from)) {
		frame_switch(s);
		return;
	}
	for (i = 0; i < s->slot_count && sp.kind == VALUE_ALIGNED && state_has_callers_rbp(s); i++)
		if (s->slot[i].aligned && s->slot[i].at >= sp.off && value_is_entry(s->slot[i].value, REG_RA)) {
			frame_begin(s, s->slot[i].at - sp.off);
			return;
		}
}
