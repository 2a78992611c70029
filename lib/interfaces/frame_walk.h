/* SPDX-License-Identifier: MIT */
/*
 * frame_walk.h: a walk for the interfaces of other unwinders: a cursor that needs no prepared table, with the
 * callee-saved registers of every frame (frame_walk.c). Async-signal-safe.
 */
#ifndef ETCH_LIB_INTERFACES_FRAME_WALK_H
#define ETCH_LIB_INTERFACES_FRAME_WALK_H

#include "unwind/cursor.h"
#include "unwind/recover.h"

struct frame_walk {
	struct cursor cursor;
	/* The last frame whose callee-saved registers were looked for: the cursor's frame or one inside it. It follows
	 * the cursor only when a register is asked for. */
	struct recover_frame behind;
};

/* Registers that a callee preserves: rbx rbp r12-r15 (psABI 3.2.1). */
#define CALLEE_SAVED_REGISTERS (1u << ETCH_RBX | 1u << ETCH_RBP | 0xf000u)

/* Begins at a frame given by its registers (indexed by enum etch_reg); `known` tells which are valid: rip, rsp and
 * rbp must be. interrupted: rip is an instruction that has not run, not a return address. */
void frame_walk_start(struct frame_walk *w, const uint64_t reg[17], uint32_t known, int interrupted);

/* Begins at the frame that a signal handler's third argument describes. */
void frame_walk_from(struct frame_walk *w, const void *ucontext);

/* Completes frame_walk_step(), whose cursor_step() has returned `ret`. */
int frame_walk_stepped(struct frame_walk *w, int ret);

/* Moves to the caller's frame; returns what cursor_step() returns. */
static inline int frame_walk_step(struct frame_walk *w)
{
	int ret = cursor_step(&w->cursor);

	return __builtin_expect(ret == ETCH_UNWIND_OK && !w->cursor.interrupted, 1) ? ret : frame_walk_stepped(w, ret);
}

/* Does what frame_walk_register() does, for a register that the cursor does not know. */
int frame_walk_saved_register(struct frame_walk *w, unsigned reg, uint64_t *value);

/* Reads a register (enum etch_reg) of the frame. Returns 1, or 0 if its value is unknown. */
static inline int frame_walk_register(struct frame_walk *w, unsigned reg, uint64_t *value)
{
	if (reg > ETCH_RIP || !(w->cursor.known & KNOWN(reg)))
		return frame_walk_saved_register(w, reg, value);
	*value = w->cursor.reg[reg];
	return 1;
}

/* Adds what .eh_frame says about the frame's callee-saved registers to what the cursor knows. Returns 1 if the cursor
 * then knows more. */
int frame_walk_registers(struct frame_walk *w);

/* Returns what walks of the interfaces do where there is no table, as a value of enum cursor_without. */
unsigned frame_walk_without_tables(void);

/* Converts a register number of the psABI's DWARF numbering (figure 3.36), 0 to 16, to enum etch_reg. */
static inline unsigned frame_walk_dwarf(unsigned reg)
{
	static const uint8_t order[8] = {ETCH_RAX, ETCH_RDX, ETCH_RCX, ETCH_RBX, ETCH_RSI, ETCH_RDI, ETCH_RBP, ETCH_RSP};

	return reg < 8 ? order[reg] : reg;
}

#endif
