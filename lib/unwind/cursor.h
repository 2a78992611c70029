/* SPDX-License-Identifier: MIT */
/*
 * cursor.h: a frame of a walk with the values of its registers (cursor.c).
 */
#ifndef ETCH_LIB_UNWIND_CURSOR_H
#define ETCH_LIB_UNWIND_CURSOR_H

#include <ucontext.h>

#include "unwind/unwind_internal.h"

/* A frame with those of its callee-saved registers that could be found. A public cursor has one, which may be at a
 * frame further in than the cursor's; it is moved to the cursor's frame when etch_find_reg() asks for a register
 * (cursor_registers.c). Walks do not set it. */
#define BEHIND_REGISTERS 8
struct behind {
	uint64_t reg[BEHIND_REGISTERS]; /* rbx r12-r15 rbp rsp rip */
	uint32_t known;                 /* bits by enum etch_reg */
	int interrupted;
};

/* A frame of a walk. The private contents of a struct etch_cursor. */
struct cursor {
	uint64_t reg[17]; /* indexed by enum etch_reg; valid where set in `known` */
	uint32_t known;
	int interrupted; /* rip is an interrupted instruction: look it up itself, not rip - 1 */
	/* The members from here up to `bare_key` are all zero at the start of a walk. */
	uint64_t text, text_size;           /* range of the table of the last module that rip was in */
	const struct unwind_module *shared; /* the last module that rip was in; null: it is in `capacity` */
	struct window window;
	const word *saved;                /* registers of the last interrupted frame, in saved_order; null if there was
	                                   * none */
	const struct etch_target *target; /* null: this process */
	uint32_t frames;
	uint16_t switches;
	uint16_t assumed;   /* enum cursor_assumed */
	uint64_t descent;   /* the CFA of an earlier step to a lower stack: if a later step has the same CFA, the walk goes
	                     * round in a circle */
	int without_tables; /* enum cursor_without: how to step where no table covers rip */
	uint64_t untabled;  /* with CURSOR_CFI: the first rip that no table covered; 0: none */
	struct prepare_image bare; /* with CURSOR_CFI: the last module without a table that rip was in; end 0: none */
	uint64_t bare_key;         /* fallback_key() of `bare`; 0: keep no rules of it */
	struct unwind_module capacity;
	struct behind behind;
};

/* What a walk does at code that no table covers (cursor.without_tables). */
enum cursor_without {
	CURSOR_CFI = 1,            /* use .eh_frame (fallback.c) */
	CURSOR_FRAME_POINTERS = 2, /* use rbp if there is no .eh_frame either */
};

/* The frames whose caller was assumed (no_code.c), as a sum of bits. */
enum cursor_assumed {
	ASSUMED_ANY = 1,  /* some frame of the walk */
	ASSUMED_LAST = 2, /* the last interrupted frame */
};

#define KNOWN(r)  (1u << (r))
#define KNOWN_ALL 0x1ffffu
/* rbx rbp r12-r15 (psABI 3.2.1) */
#define CALLEE_SAVED (1u << ETCH_RBX | 1u << ETCH_RBP | 0xf000u)

_Static_assert(sizeof(struct cursor) <= sizeof(struct etch_cursor), "a cursor fits");

/* Begins a walk; the caller sets the registers. */
static inline __attribute__((always_inline)) void cursor_start(struct cursor *c)
{
	__builtin_memset((char *)c + offsetof(struct cursor, text), 0,
	                 offsetof(struct cursor, bare_key) - offsetof(struct cursor, text));
	stack_begin();
}

/* The places of registers in a ucontext_t, in words: gregset_t. The last three are the processor's description of the
 * thread's last fault. */
enum { SAVED_RBP = 10, SAVED_RSP = 15, SAVED_RIP = 16, SAVED_ERR = 19, SAVED_TRAPNO = 20, SAVED_CR2 = 22 };
/* The value of SAVED_TRAPNO for a page fault. */
#define TRAP_PAGE_FAULT 14

/* Positions the cursor at the frame of a ucontext_t, which need not be the kernel's. */
void cursor_from(struct cursor *c, const void *ucontext);

/* Positions the cursor at the frame of the public function's caller. `frame`:
 * __builtin_frame_address(0) of the public function. */
NO_ASAN static inline __attribute__((always_inline)) void cursor_here(struct cursor *c, const uint64_t *frame)
{
	cursor_start(c);
	c->reg[ETCH_RBP] = frame[0];
	c->reg[ETCH_RIP] = frame[1];
	c->reg[ETCH_RSP] = (uint64_t)(uintptr_t)(frame + 2);
	c->known = KNOWN(ETCH_RIP) | KNOWN(ETCH_RSP) | KNOWN(ETCH_RBP);
	c->interrupted = 0;
}

/* To be called for a cursor at a frame that the kernel has described: if the thread's last signal was a page fault,
 * rsp itself may have caused it, and point into a stack that is gone. */
static inline __attribute__((always_inline)) void cursor_fault(const struct cursor *c)
{
	if (ETCH_UNLIKELY(c->saved[SAVED_TRAPNO] == TRAP_PAGE_FAULT))
		stack_forget();
}

/* Positions the cursor at the frame of a ucontext_t; with null, does what cursor_here() does. */
NO_ASAN static inline __attribute__((always_inline)) void cursor_begin(struct cursor *c, const void *ucontext,
                                                                       const uint64_t *frame)
{
	if (ucontext) {
		cursor_from(c, ucontext);
		cursor_fault(c);
	} else {
		cursor_here(c, frame);
	}
}

/* cursor_begin() for cursor_walk() and cursor_walk_reuse(): loads only those registers of an interrupted frame that
 * plain frames need; cursor_load_rest() loads the others. */
NO_ASAN static inline __attribute__((always_inline)) void cursor_begin_walk(struct cursor *c, const void *ucontext,
                                                                            const uint64_t *frame)
{
	const ucontext_t *u = ucontext;

	if (!ucontext) {
		cursor_here(c, frame);
		return;
	}
	cursor_start(c);
	c->saved = (const word *)(const void *)u->uc_mcontext.gregs;
	cursor_fault(c);
	c->reg[ETCH_RSP] = c->saved[SAVED_RSP];
	c->reg[ETCH_RIP] = c->saved[SAVED_RIP];
	c->reg[ETCH_RBP] = c->saved[SAVED_RBP];
	c->known = KNOWN(ETCH_RSP) | KNOWN(ETCH_RIP) | KNOWN(ETCH_RBP);
	c->interrupted = 1;
}

/* Moves to the caller's frame. Returns ETCH_UNWIND_OK, or the reason why there is none. */
int cursor_step(struct cursor *c);

/*
 * Reads a word of the stack or of code. Returns 0, or -1 if it cannot be read. In this process only pages that the
 * kernel has confirmed as readable are read.
 */
int cursor_read(struct cursor *c, uint64_t at, uint64_t *v);

/* Finds the rule for c's frame. Returns ETCH_UNWIND_OK, or ETCH_UNWIND_NOTABLE. */
int cursor_rule(struct cursor *c, struct etch_rule *r);

/* Steps from an interrupted frame whose rip is in no code to its caller, and marks that in c->assumed. Returns
 * ETCH_UNWIND_OK; or ETCH_UNWIND_NOTABLE, with the cursor unchanged. (no_code.c) */
int cursor_assume(struct cursor *c);
/* Is the interrupted frame's rip known to be in no code? (no_code.c) */
int cursor_in_no_code(struct cursor *c);
/* Is this an address to which a function returns: an address after a call, a signal handler's return address, or one
 * where a stack begins? 1 or 0; -1 if the code cannot be read. (no_code.c) */
int cursor_returns_to(struct cursor *c, uint64_t ip);

/* Completes a step of a public cursor whose result is `ret`; see etch_step(). */
int cursor_stepped(struct cursor *c, int ret);
/* Notes that all callee-saved registers of c's frame are known, so that etch_find_reg() finds those of frames further
 * out from this frame. */
void cursor_behind_set(struct cursor *c);

/* Is rip of the frame in the code that a signal handler returns to? */
int cursor_at_signal(struct cursor *c);

/* Finds the rule for c's frame, which no table covers, by .eh_frame of its module m (cfi_map.h), or, if m is null,
 * according to c->without_tables. Returns ETCH_UNWIND_OK or ETCH_UNWIND_NOTABLE. (fallback.c) */
int cursor_fallback(struct cursor *c, const struct unwind_module *m, struct etch_rule *r);

/* Gives fallback_rule() FALLBACK_BYTES bytes of zeroed memory, which must stay mapped. From then on it keeps there the
 * rules that it has read from .eh_frame; before, each walk reads them again. May run at the same time as walks, and in
 * signal handlers. (fallback.c) */
#define FALLBACK_BYTES (640u << 10)
void fallback_keep(void *capacity);

/* The key by which the kept rules of a module are found; 0 if its rules must not be kept, because it has no build-id
 * that tells it from another file that may be loaded at its place. (fallback.c) */
uint64_t fallback_key(const struct prepare_image *im);

/* Finds the rule of .eh_frame for an address of a module with this key. It is taken from the kept rules if it has been
 * read before. Returns false if .eh_frame has no rule for the address. (fallback.c) */
bool fallback_rule(const struct prepare_image *im, uint64_t key, uint64_t at, struct etch_rule *r);

/* Moves over a plain frame (plain_frames.h) by a rule. Returns 1, or 0 with *f unchanged. (fallback.c) */
struct frame;
int fallback_move(const struct window *w, struct frame *f, const struct etch_rule *r);

/* Walks over plain frames without a table whose rules are kept, inside c's window, and stores the rips of their
 * callers. Stops at any other frame. Returns the end of what it stored. (fallback.c) */
void **kept_frames(struct cursor *c, struct frame *f, void **out, void **end);

/*
 * Walks from c's frame: stores its rip and those of its callers, at most `max`, in ips, and their number in *count.
 * Returns why the walk ended; it is ETCH_UNWIND_LIMIT if ips is full, without looking for a further frame. (walk.c)
 */
int cursor_walk(struct cursor *c, void **ips, int max, int *count);

const struct unwind_module *cursor_enter_other(struct cursor *c, uint64_t at);

/* The module whose table covers this address, or null. Do not keep the pointer: it may point into the cursor, which
 * may be copied. */
static inline __attribute__((always_inline)) const struct unwind_module *cursor_enter(struct cursor *c, uint64_t at)
{
	if (ETCH_UNLIKELY(at - c->text >= c->text_size))
		return cursor_enter_other(c, at);
	return c->shared ? c->shared : &c->capacity;
}

/* Loads the registers of an interrupted frame that cursor_begin_walk() has left out. */
void cursor_load_rest(struct cursor *c);

#endif
