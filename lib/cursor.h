/* SPDX-License-Identifier: MIT */
/*
 * cursor.h: a frame of a walk, with the values of its registers (cursor.c).
 */
#ifndef ETCH_CURSOR_H
#define ETCH_CURSOR_H

#include "unwind_internal.h"

struct cursor {
	uint64_t reg[17];  /* enum etch_reg; of those in `known` */
	uint32_t known;
	uint32_t frames;
	uint32_t switches;
	int interrupted;   /* rip is looked up as it is */
	const struct etch_target *target; /* null: this process */
	const word *saved; /* registers of the last interrupted frame, in saved_order; null: there was none */
	struct window window;
	const struct unwind_module *shared; /* the module that rip was in last; null: it is in `room` */
	struct unwind_module room;          /* text_size 0: none */
};

#define KNOWN(r)  (1u << (r))
#define KNOWN_ALL 0x1ffffu

_Static_assert(sizeof(struct cursor) <= sizeof(struct etch_cursor), "a cursor fits");

/* At the frame that a ucontext_t is of; that of a caller: cursor_here(). */
void cursor_start(struct cursor *c);
void cursor_from(struct cursor *c, const void *ucontext);

/* `frame`: __builtin_frame_address(0) of the function that the caller has called. */
NO_ASAN static inline __attribute__((always_inline)) void cursor_here(struct cursor *c, const uint64_t *frame)
{
	cursor_start(c);
	c->reg[ETCH_RBP] = frame[0];
	c->reg[ETCH_RIP] = frame[1];
	c->reg[ETCH_RSP] = (uint64_t)(uintptr_t)(frame + 2);
	c->known = KNOWN(ETCH_RIP) | KNOWN(ETCH_RSP) | KNOWN(ETCH_RBP);
	c->interrupted = 0;
}

/* To the frame above: ETCH_UNWIND_OK, or why there is none. */
int cursor_step(struct cursor *c);

/* The module whose table covers this address, or null. Not a pointer to keep: a cursor
 * may be copied. */
const struct unwind_module *cursor_enter(struct cursor *c, uint64_t at);

#endif
