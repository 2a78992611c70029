/* SPDX-License-Identifier: MIT */
/*
 * recover.h: recovers callee-saved registers of outer frames (recover.c).
 */
#ifndef ETCH_LIB_UNWIND_RECOVER_H
#define ETCH_LIB_UNWIND_RECOVER_H

#include "unwind/unwind_internal.h"

struct eh_view;
struct etch_fde;

/* Finds the module of an address: 1, or 0. Async-signal-safe. */
typedef int recover_image_fn(uint64_t at, struct prepare_image *im);

/* Registers that a callee may change. */
#define RECOVER_SCRATCH                                                                                   \
	(1u << ETCH_RAX | 1u << ETCH_RCX | 1u << ETCH_RDX | 1u << ETCH_RSI | 1u << ETCH_RDI | 1u << ETCH_R8 | \
	 1u << ETCH_R9 | 1u << ETCH_R10 | 1u << ETCH_R11)

/*
 * May the caller's frame be on a lower stack? Yes if the CFA is loaded from memory, or relative to
 * a register in which a function that switches stacks keeps its own rsp, as OCaml 5 does when it
 * calls C, and Go in rbp.
 */
static inline bool rule_may_switch(const struct etch_rule *r)
{
	return (r->cfa & ETCH_CFA_DEREF) || (r->cfa & 15u) != ETCH_REG_RSP;
}

/* A frame of a walk by register tables, or where a module has none, by .eh_frame. */
struct recover_frame {
	uint64_t reg[17]; /* indexed by enum etch_reg; valid where set in `known` */
	uint32_t known;
	bool interrupted; /* rip is an interrupted instruction */
	struct window window;
	const struct etch_target *target; /* null: this process */
};

/*
 * Steps to the caller's frame, with every callee-saved register whose place is known. False,
 * with *f unchanged: no rule, or not one of an ordinary call. Async-signal-safe; 4 KiB of stack.
 */
bool recover_step(struct recover_frame *f, recover_image_fn *image);

/* Stores the rule of .eh_frame for an address in *rule: of this module, or if the address is not in it, of what a
 * JIT has registered. 1; 0 if there is none that a struct etch_rule can express; -1 if the module has been unloaded.
 * Needs the sorted table of .eh_frame_hdr. Async-signal-safe; 6 KiB of stack. */
int recover_rule(const struct prepare_image *im, uint64_t at, struct etch_rule *rule);

/* The FDE that covers an address of a module, with link-time addresses; it refers to *v, which the caller closes.
 * False, with nothing to close, if there is none. Async-signal-safe. */
bool recover_fde(const struct prepare_image *im, uint64_t at, struct eh_view *v, struct etch_fde *fde);

/*
 * Recovers a register of the frame (rip, rsp) of this process. reg: all registers (enum etch_reg) of
 * an interrupted frame that this frame has called, directly or not; `returned`: of a frame that has called another,
 * whose rip is a return address. A register of RECOVER_SCRATCH is
 * recovered only if it was called directly, and is only as reliable as .eh_frame: the caller has to
 * check the result. Returns 0, or -1 if .eh_frame has no rule for the register. Async-signal-safe;
 * 2 KiB of stack.
 */
int recover_register(const uint64_t reg[17], bool returned, uint64_t rip, uint64_t rsp, unsigned want,
                     recover_image_fn *image, uint64_t *value);

#endif
