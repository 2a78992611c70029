/* SPDX-License-Identifier: MIT */
/*
 * States in code whose callers find their frames by rbp (convention.frames_by_rbp). Before a tail call such code may
 * take its arguments off the stack, or push others, as many as a register says: it pops the return address, moves rsp,
 * and pushes the address again. From there on the frame is as at a function's entry.
 */
#include "analysis/flow/state_internal.h"

static bool is_return_address(struct value v) { return v.kind == VALUE_ENTRY && v.reg == REG_RA; }

/* Makes the return address on top of the stack the whole frame; all that is relative to the old CFA is forgotten. */
static void frame_begin(struct state *s)
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
	s->reg[RSP] = value_of(VALUE_CFA, 0, -8);
}

void state_pushed(struct state *s, struct value v)
{
	if (s->reg[RSP].kind != VALUE_CFA && is_return_address(v) && state_has_callers_rbp(s))
		frame_begin(s);
}

/* Code is moving the words of the frame, the return address among them: no slot is known to hold it meanwhile. */
void state_stored_among(struct state *s)
{
	unsigned i = 0;

	while (state_has_callers_rbp(s) && i < s->slot_count)
		if (is_return_address(s->slot[i].value))
			slot_drop(s, i);
		else
			i++;
}
