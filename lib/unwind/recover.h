/* SPDX-License-Identifier: MIT */
/*
 * recover.h: recovers callee-saved registers of outer frames (recover.c).
 */
#ifndef ETCH_LIB_UNWIND_RECOVER_H
#define ETCH_LIB_UNWIND_RECOVER_H

#include "unwind/unwind_internal.h"

struct eh_view;
struct etch_cfi_row;
struct etch_fde;

/* Finds the module of an address. Returns 1, or 0. Async-signal-safe. */
typedef int recover_image_fn(uint64_t at, struct prepare_image *im);

/* Registers that a callee may change. */
#define RECOVER_SCRATCH                                                                                   \
	(1u << ETCH_RAX | 1u << ETCH_RCX | 1u << ETCH_RDX | 1u << ETCH_RSI | 1u << ETCH_RDI | 1u << ETCH_R8 | \
	 1u << ETCH_R9 | 1u << ETCH_R10 | 1u << ETCH_R11)

/*
 * May the caller's frame be on a lower stack? It may if the CFA is loaded from memory, or relative to a register in
 * which a function that switches stacks keeps its own rsp, as OCaml 5 does when it calls C, and as Go does in rbp.
 */
static inline bool rule_may_switch(const struct etch_rule *r)
{
	return (r->cfa & ETCH_CFA_DEREF) || (r->cfa & 15u) != ETCH_REG_RSP;
}

/* A frame of a walk by register tables, or by .eh_frame if a module has none. */
struct recover_frame {
	uint64_t reg[17]; /* indexed by enum etch_reg; valid where set in `known` */
	uint32_t known;
	bool interrupted; /* rip is an interrupted instruction */
	struct window window;
	const struct etch_target *target; /* null: this process */
};

/*
 * Steps to the caller's frame, with every callee-saved register whose place is known. Returns false, with *f
 * unchanged, if there is no rule, or the rule is not that of an ordinary call. Async-signal-safe; takes 4 KiB of
 * stack.
 */
bool recover_step(struct recover_frame *f, recover_image_fn *image);

/* Stores the rule of .eh_frame for an address in *rule: for an address of this module, or, if it is not in the
 * module, of code that a JIT has registered. Returns 1; 0 if there is none that a struct etch_rule can express; -1 if
 * the module has been unloaded. Needs the sorted table of .eh_frame_hdr. Async-signal-safe; takes 6 KiB of stack. */
int recover_rule(const struct prepare_image *im, uint64_t at, struct etch_rule *rule);

/* Finds the FDE that covers an address of a module, with link-time addresses; it refers to *v, which the caller
 * closes. Returns false, with nothing to close, if there is none. Async-signal-safe. */
bool recover_fde(const struct prepare_image *im, uint64_t at, struct eh_view *v, struct etch_fde *fde);

/*
 * Recovers the register `want` of the frame (rip, rsp) of this process. reg: all registers (indexed by enum etch_reg)
 * of an inner frame, from which the frame is reached by steps to callers. If `returned` is not set, the inner frame was
 * interrupted; if it is, the inner frame has made a call, and its rip is a return address. A register of
 * RECOVER_SCRATCH is recovered only if the frame is the direct caller of an interrupted one, and the value is only as
 * reliable as .eh_frame: the caller has to check it. Returns 0, or -1 if .eh_frame has no rule for the register.
 * Async-signal-safe; takes 2 KiB of stack.
 */
int recover_register(const uint64_t reg[17], bool returned, uint64_t rip, uint64_t rsp, unsigned want,
                     recover_image_fn *image, uint64_t *value);

/* Find the row for a run-time address: of a module of this process, or of one of a target. Return false if the module
 * has no register table, or no rule of kind CALL there. Async-signal-safe. (register_tables.c) */
bool registers_row(const struct prepare_image *im, uint64_t at, struct etch_cfi_row *out);
bool registers_target_row(const struct etch_target *target, uint64_t at, struct etch_cfi_row *out);

#endif
