/* SPDX-License-Identifier: MIT */
/*
 * frame_walk.c: steps by tables, or by .eh_frame where there is none; on demand it finds the callee-saved registers
 * of a frame, by .eh_frame from the last frame where they are known.
 *
 * RULES OF THIS FILE. All of it runs in signal context, on a thread stopped anywhere: no malloc, no lock, no
 * thread-local storage, and of libc only memcpy. Do not introduce any dependency there.
 */
#include "interfaces/frame_walk.h"

/* Maximum number of frames that are walked for a register. */
#define BEHIND 65536

static void behind_set(struct frame_walk *w)
{
	const struct cursor *c = &w->cursor;

	memcpy(w->behind.reg, c->reg, sizeof(w->behind.reg));
	w->behind.known = c->known;
	w->behind.interrupted = c->interrupted;
	w->behind.window.lo = w->behind.window.hi = 0;
	w->behind.target = NULL;
}

void frame_walk_start(struct frame_walk *w, const uint64_t reg[17], uint32_t known, int interrupted)
{
	struct cursor *c = &w->cursor;

	cursor_start(c);
	c->without_tables = (int)frame_walk_without_tables();
	memcpy(c->reg, reg, sizeof(c->reg));
	c->known = known;
	c->interrupted = interrupted;
	behind_set(w);
}

void frame_walk_from(struct frame_walk *w, const void *ucontext)
{
	cursor_from(&w->cursor, ucontext);
	w->cursor.without_tables = (int)frame_walk_without_tables();
	behind_set(w);
}

static int behind_is_here(const struct frame_walk *w)
{
	return w->behind.reg[ETCH_RSP] == w->cursor.reg[ETCH_RSP] && w->behind.reg[ETCH_RIP] == w->cursor.reg[ETCH_RIP];
}

/* Moves `behind` from an interrupted frame in no code to its caller, whose registers cursor_assume() has kept.
 * Returns 1, or 0 if it is another frame. */
static int behind_assumed(struct frame_walk *w)
{
	static const uint8_t kept[BEHIND_REGISTERS] = {ETCH_RBX, ETCH_R12, ETCH_R13, ETCH_R14,
	                                               ETCH_R15, ETCH_RBP, ETCH_RSP, ETCH_RIP};
	const struct behind *b = &w->cursor.behind;

	if (!w->behind.interrupted || !(w->cursor.assumed & ASSUMED_LAST))
		return 0;
	for (unsigned i = 0; i < BEHIND_REGISTERS; i++)
		w->behind.reg[kept[i]] = b->reg[i];
	w->behind.known = b->known & (CALLEE_SAVED_REGISTERS | KNOWN(ETCH_RSP) | KNOWN(ETCH_RIP));
	w->behind.interrupted = 0;
	return 1;
}

/* Brings `behind` to the cursor's frame. Returns 1, or 0 if .eh_frame does not lead there. */
static int behind_follow(struct frame_walk *w)
{
	for (unsigned i = 0; i < BEHIND && !behind_is_here(w); i++)
		if (!recover_step(&w->behind, loaded_image) && !behind_assumed(w))
			return 0;
	return behind_is_here(w);
}

int frame_walk_saved_register(struct frame_walk *w, unsigned reg, uint64_t *value)
{
	/* .eh_frame has no rule for the other registers: that behind.known has them would only mean that no rule has
	 * changed them. */
	if (reg > ETCH_RIP || !(CALLEE_SAVED_REGISTERS & KNOWN(reg)) || !behind_follow(w) ||
	    !(w->behind.known & KNOWN(reg)))
		return 0;
	*value = w->behind.reg[reg];
	return 1;
}

int frame_walk_registers(struct frame_walk *w)
{
	struct cursor *c = &w->cursor;
	uint32_t before = c->known;

	for (unsigned reg = 0; reg < ETCH_RIP; reg++)
		if (!(c->known & KNOWN(reg)) && frame_walk_register(w, reg, &c->reg[reg]))
			c->known |= KNOWN(reg);
	return c->known != before;
}

int frame_walk_stepped(struct frame_walk *w, int ret)
{
	if (ret == ETCH_UNWIND_REGISTER && frame_walk_registers(w))
		ret = cursor_step(&w->cursor);
	if (ret == ETCH_UNWIND_OK && w->cursor.known == KNOWN_ALL)
		behind_set(w); /* a frame that a signal interrupted */
	return ret;
}
