/* SPDX-License-Identifier: MIT */
/*
 * The abstract state of the flow analysis (analysis/flow/flow.h) before one instruction: it says which registers and
 * stack slots hold an address relative to the CFA, or a value that the caller needs back. States form a lattice; the
 * join keeps what both states know.
 */
#ifndef ANALYSIS_FLOW_STATE_H
#define ANALYSIS_FLOW_STATE_H

#include <etch/orc.h>

#include "analysis/facts/notes.h"
#include "arch/x86/fast_decoder.h"

/* The kinds of values, by what is known about them. `off` and `reg` are members of struct value. */
enum value_kind {
	VALUE_ANY = 0,  /* unknown */
	VALUE_CFA,      /* CFA + off */
	VALUE_ENTRY,    /* the value that register `reg` held at entry; REG_RA: the return address */
	VALUE_ALIGNED,  /* address of the realigned frame (state.align) + off */
	VALUE_CONST,    /* the number off, zero-extended */
	VALUE_PLACE,    /* the link-time address off, plus the load bias */
	VALUE_BELOW,    /* an unsigned number of at most off: the index of a jump table */
	VALUE_DISTANCE, /* a 4-byte entry, that is, a distance, from the jump table at address off; off 0: the table is
	                   unknown */
	VALUE_TARGET,   /* the address of a target, from an entry of the jump table at address off; reg: bytes per entry */
};

#define REG_RA 16u

/* The number of bytes below rsp that a signal handler leaves alone (psABI 3.2.2). */
#define RED_ZONE 128

/* The kind of a state's frame. It is FRAME_CALL, the frame of a function that was called, unless a note says otherwise
 * (facts/notes.h). In a frame that a note gives, the CFA is the one that the note defines. */
enum frame_kind {
	FRAME_CALL = 0,
	FRAME_REGS = RULE_REGS,
	FRAME_REGS_PARTIAL = RULE_REGS_PARTIAL,
	FRAME_REGS_SIGNAL = RULE_REGS | RULE_SIGNAL,
	FRAME_REGS_PARTIAL_SIGNAL = RULE_REGS_PARTIAL | RULE_SIGNAL,
	FRAME_END = ETCH_RULE_END,
	FRAME_MIXED = 255, /* the join of two kinds: there is no rule */
};

/* The ways in which code departs from the psABI. The file's profile (facts/notes.h) or the code range's convention
 * (facts/runtime.h) says which of them apply. */
enum {
	ABI_NO_RED_ZONE = 1,    /* profile.no_red_zone */
	ABI_SWITCHES_STACK = 2, /* profile.switches_stack */
	ABI_TRAPS_CONTINUE = 4, /* profile.traps_continue */
	ABI_FRAMES_BY_RBP = 8,  /* convention.frames_by_rbp of the code range */
	ABI_HANDLER = 16,       /* the code range is a handler of an interpreter (interproc/interpreters.c) */
};

/* A value in a register or slot, as far as it is known. `kind` says which fields count. */
struct value {
	int32_t off;
	uint8_t kind, reg;
	union {
		uint16_t most;     /* jump table: the number of entries; 0: unknown */
		uint16_t reloaded; /* VALUE_ENTRY: 1 if on all paths the value was loaded from a slot; else 0 */
	};
};

/* Is a value the one that register r held at the function's entry? With r = REG_RA: is the value the return address? */
static inline bool value_is_entry(struct value v, unsigned r) { return v.kind == VALUE_ENTRY && v.reg == r; }

/* Eight bytes of stack at a known address, and their value. */
struct slot {
	int32_t at;
	uint8_t aligned; /* 1: `at` is relative to the realigned frame's address; 0: to the CFA */
	uint8_t zero[3]; /* always 0: slot_place() reads the fields up to here as one number */
	struct value value;
};

/* The most slots of a state: enough for all saved registers and some copies of the CFA. */
#define STATE_SLOTS 16u

/* What holds before one instruction on all paths that lead to it. */
struct state {
	struct value reg[16];
	uint32_t align; /* 1 + offset of the instruction that realigned rsp; 0: there is none */
	uint16_t known; /* mask of registers: all others are VALUE_ANY */
	bool weak; /* some path to the instruction is only inferred, such as one from indirect jumps, so the state alone
	              does not overrule .eh_frame */
	bool dead; /* every path to the instruction passes the return of a noreturn call */
	uint8_t slot_count;
	uint8_t constants; /* EFFECT_CONSTANT: the analysis follows constants, addresses in the file and bounds; 0: it does
	                      not */
	uint8_t frame;     /* enum frame_kind */
	uint8_t abi_flags; /* ABI_* of the file and the code range */
	int32_t lowest; /* no slot relative to the CFA is below this offset: by this, most stores need not search `slot` */
	struct slot slot[STATE_SLOTS];
};

/* The state at a function's entry. */
extern const struct state state_at_entry;
/* Sets *s to the state in which handlers of an interpreter begin: in a frame that push %rbp; mov %rsp, %rbp has made,
 * with rsp unknown. */
void state_handler(struct state *s);
/* Copies a state, but of its slots only the few in use. For these, a loop is faster than an assignment or a memcpy() of
 * variable length. */
static inline void state_copy(struct state *to, const struct state *from)
{
	unsigned i;

	__builtin_memcpy(to, from, offsetof(struct state, slot));
	for (i = 0; i < from->slot_count; i++)
		to->slot[i] = from->slot[i];
}
static inline void state_entry(struct state *s) { state_copy(s, &state_at_entry); }
/* Stops following constants: forgets all values except addresses of the frame and those that the caller needs back. */
void state_drop_constants(struct state *s);
/* Checks state_leaves() in builds with ETCH_CHECK_STEPS (make asan): aborts if the instruction changes the state. */
void state_leaves_check(const struct state *s, const struct step *in);
/* Does an instruction leave the state as it is? Most do, since they only touch registers whose values are unknown. */
static inline bool state_leaves(const struct state *s, const struct step *in)
{
	bool leaves = !((in->touches & s->known) | (in->effects & s->constants));

#ifdef ETCH_CHECK_STEPS
	if (leaves)
		state_leaves_check(s, in);
#endif
	return leaves;
}
/*
 * Given a load or a store for which state_leaves() is false: does it leave the state as it is nevertheless, because it
 * loads an unknown value into a register whose value is unknown, or stores such a value, below all known slots? Most
 * accesses to local variables do.
 */
static inline bool state_passes(const struct state *s, const struct step *in)
{
	if ((in->op != STEP_LOAD && in->op != STEP_STORE) || (in->effects & EFFECT_OTHER) || in->b >= 16 ||
	    in->index != INSN_NO_REG || s->reg[in->b].kind != VALUE_CFA || (in->a < 16 && s->reg[in->a].kind != VALUE_ANY))
		return false;
	return (int64_t)s->reg[in->b].off + in->disp + (in->a < 16 ? 8 : in->size) <= s->lowest;
}
/* Can an unwind rule be made from a register's value? (That rbp still has its value from the entry does not count.) */
static inline bool state_rules(const struct state *s, unsigned r)
{
	return s->reg[r].kind == VALUE_CFA || s->reg[r].kind == VALUE_ALIGNED || value_is_entry(s->reg[r], REG_RA);
}
/* Is the return address in the first slot, where the call has put it, and not below rsp? This is so for most states. */
static inline bool state_ra_in_place(const struct state *s)
{
	const struct slot *x = &s->slot[0];

	return s->slot_count && x->at == -8 && !x->aligned && value_is_entry(x->value, REG_RA) &&
	       (s->reg[ETCH_REG_RSP].kind != VALUE_CFA || s->reg[ETCH_REG_RSP].off <= -8);
}
/* Does the unwind rule of a state depend on rsp, rbp and the slots alone, whatever is in the other registers? */
static inline bool state_rule_by_frame(const struct state *s)
{
	return s->reg[ETCH_REG_RSP].kind == VALUE_CFA && s->reg[ETCH_REG_RSP].off > INT32_MIN && state_ra_in_place(s);
}
/* Does rbp hold the caller's value? */
static inline bool state_has_callers_rbp(const struct state *s)
{
	return s->reg[ETCH_REG_RBP].kind == VALUE_ENTRY && s->reg[ETCH_REG_RBP].reg == ETCH_REG_RBP;
}
/* Applies the transfer function of an instruction, at offset `at` of the code range. */
void state_transfer(struct state *s, const struct step *in, uint32_t at);
/* Applies the effect of a call that returns: the registers and memory that the callee need not preserve become
 * unknown. */
void state_call(struct state *s);
/* Joins `other` into *s. Returns true if *s has changed. */
bool state_join(struct state *s, const struct state *other);
bool state_same(const struct state *a, const struct state *b);
/* Refines the state by the fact that registers a and b are equal. */
void state_equal(struct state *s, unsigned a, unsigned b);
/* Refines the state by the fact that register r is at most n, unsigned. */
void state_limit(struct state *s, unsigned r, int64_t n);
/* Refines the state by the fact that register r is not n: if r is known to be at most n, its bound becomes n - 1. */
void state_not(struct state *s, unsigned r, int64_t n);
/* Forgets the bounds of all values. Called at the targets of a jump table. There the index has only some of the values
 * below its bound, so another table with the same index may have fewer entries than the bound says. */
void state_unlimit(struct state *s);
/* Finds the jump table from which an indirect jump takes its target. Returns false if there is none. Otherwise *out is
 * a VALUE_TARGET: `off` is the table's address (0: unknown), `reg` the number of bytes per entry, `most` the number of
 * entries (0: unknown). */
bool state_table(const struct state *s, const struct step *jump, struct value *out);
/* Is the state that of a function's entry: the return address on top, callee-saved registers unchanged? A jump in this
 * state is a tail call. */
bool state_is_entry(const struct state *s);
/* Is the return address on top of the stack? */
bool state_returns(const struct state *s);

/* Makes the rule that the state proves; its kind is UNDEF if the state proves no CFA. */
void state_rule(const struct state *s, struct etch_rule *out);

struct etch_cfi_saves;

/*
 * Finds where the caller's rbx and r12 to r15 are (rbp is part of the rule): unchanged in the register, or in a slot.
 * ETCH_SAVE_OTHER means that neither is proven. As in compilers' tables, a slot is preferred to the register as long as
 * nothing can have written to it, so that a row holds longer. Returns the offset from the CFA of a slot that holds the
 * caller's rbp, or 0 if there is none. *depends becomes the mask of the registers on which these results depend, as
 * long as rsp and the slots stay as they are.
 */
int32_t state_saves(const struct state *s, struct etch_cfi_saves *out, unsigned *depends);
/* Are the callee-saved registers certainly in the same places in two states? `registers` are those on which the places
 * in one of the states depend (*depends of state_saves()). */
bool saves_hold(const struct state *a, const struct state *b, unsigned registers);

/* What a state can show of a rule. */
enum witness {
	WITNESS_SILENT,   /* the state neither proves nor contradicts the rule */
	WITNESS_CONFIRMS, /* the state proves all parts of the rule */
	WITNESS_DENIES,   /* the state proves that a part of the rule is wrong */
};
/* Compares a rule from another source, such as .eh_frame, with the state. */
enum witness state_witness(const struct state *s, const struct etch_rule *rule);
/* Returns the same as state_witness(), but faster. The rule must be equal to the one that state_rule() makes from s, so
 * only the return address has to be judged. */
enum witness state_witness_own(const struct state *s, const struct etch_rule *rule);
/* Do both states certainly give the same result for every rule? */
bool state_rules_same(const struct state *a, const struct state *b);

#endif
