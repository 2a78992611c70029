/* SPDX-License-Identifier: MIT */
/*
 * cursor_registers.c: the callee-saved registers of a cursor's frame, which no step keeps. They are found when they
 * are asked for: from the last frame where they are known, frame by frame (recover.c).
 *
 * RULES OF THIS FILE. All of it runs in signal context, on a thread stopped anywhere: no malloc, no lock, no
 * thread-local storage, and of libc only memcpy. Do not introduce any dependency there.
 */
#include "unwind/cursor.h"
#include "unwind/recover.h"

/* Maximum number of frames that are walked for a register. */
#define BEHIND 65536

/* The registers of struct behind, in its order. */
static const uint8_t kept[BEHIND_REGISTERS] = {ETCH_RBX, ETCH_R12, ETCH_R13, ETCH_R14,
                                               ETCH_R15, ETCH_RBP, ETCH_RSP, ETCH_RIP};

void cursor_behind_set(struct cursor *c)
{
	struct behind *b = &c->behind;

	for (unsigned i = 0; i < BEHIND_REGISTERS; i++)
		b->reg[i] = c->reg[kept[i]];
	b->known = c->known;
	b->interrupted = c->interrupted;
}

/* Moves the cursor's `behind` (cursor.h) to the cursor's frame. Returns 1, or 0 if no steps lead there. */
static int behind_follow(struct cursor *c)
{
	struct recover_frame f = {.known = c->behind.known, .interrupted = c->behind.interrupted, .target = c->target};
	int here;

	for (unsigned i = 0; i < BEHIND_REGISTERS; i++)
		f.reg[kept[i]] = c->behind.reg[i];
	for (unsigned n = 0;; n++) {
		here = f.reg[ETCH_RSP] == c->reg[ETCH_RSP] && f.reg[ETCH_RIP] == c->reg[ETCH_RIP];
		if (here || n == BEHIND || !recover_step(&f, loaded_image))
			break;
	}
	for (unsigned i = 0; i < BEHIND_REGISTERS; i++)
		c->behind.reg[i] = f.reg[kept[i]];
	c->behind.known = f.known;
	c->behind.interrupted = f.interrupted;
	return here;
}

UNWIND_API int etch_find_reg(struct etch_cursor *cursor, int reg, uint64_t *value)
{
	struct cursor *c = (struct cursor *)cursor;
	int ret = etch_get_reg(cursor, reg, value);

	if (ret != ETCH_UNWIND_REGISTER || !(CALLEE_SAVED & KNOWN(reg)) || !behind_follow(c))
		return ret;
	for (unsigned i = 0; i < BEHIND_REGISTERS; i++)
		if (kept[i] == reg && (c->behind.known & KNOWN(reg))) {
			*value = c->behind.reg[i];
			return ETCH_UNWIND_OK;
		}
	return ret;
}

int cursor_stepped(struct cursor *c, int ret)
{
	uint32_t before = c->known;

	if (ret == ETCH_UNWIND_REGISTER) {
		for (int reg = ETCH_RAX; reg <= ETCH_R15; reg++)
			if (!(c->known & KNOWN(reg)) && etch_find_reg((struct etch_cursor *)c, reg, &c->reg[reg]) == ETCH_UNWIND_OK)
				c->known |= KNOWN(reg);
		if (c->known != before)
			ret = cursor_step(c);
	}
	if (ret == ETCH_UNWIND_OK && c->interrupted)
		cursor_behind_set(c);
	return ret;
}
