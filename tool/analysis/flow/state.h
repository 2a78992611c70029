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

/* The kinds of what can be known of a value. */
enum value_kind {
	VALUE_ANY = 0,  /* unknown */
	VALUE_CFA,      /* CFA + off */
	VALUE_ENTRY,    /* the value that register `reg` held at entry; REG_RA: the return address */
	VALUE_ALIGNED,  /* base of the realigned frame (see state.align) + off */
	VALUE_CONST,    /* the number off, zero-extended */
	VALUE_PLACE,    /* the link-time address off, plus the load bias */
	VALUE_BELOW,    /* unsigned, at most off: the index of a jump table */
	VALUE_DISTANCE, /* a 4-byte entry of the jump table at address off; off 0: the table is unknown */
	VALUE_TARGET,   /* a target from the jump table at address off; reg: bytes per entry */
};

#define REG_RA 16u

/* The number of bytes below rsp that a signal handler leaves alone (psABI 3.2.2). */
#define RED_ZONE 128

/* The kind of a state's frame: that of a call, unless a note says otherwise (facts/notes.h). The CFA of a frame that a
 * note gives is the note's. */
enum frame_kind {
	FRAME_CALL = 0,
	FRAME_REGS = RULE_REGS,
	FRAME_REGS_PARTIAL = RULE_REGS_PARTIAL,
	FRAME_REGS_SIGNAL = RULE_REGS | RULE_SIGNAL,
	FRAME_REGS_PARTIAL_SIGNAL = RULE_REGS_PARTIAL | RULE_SIGNAL,
	FRAME_END = ETCH_RULE_END,
	FRAME_MIXED = 255, /* the join of two kinds: there is no rule */
};

/* The ways in which code departs from the psABI, by the file's profile (facts/notes.h) or the code range's
 * convention. */
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
		uint16_t reloaded; /* VALUE_ENTRY: 1 if it comes from a slot; 0 if on some path it does not */
	};
};

/* Is a value the one that register r held at entry? r = REG_RA: is it the return address? */
static inline bool value_is_entry(struct value v, unsigned r) { return v.kind == VALUE_ENTRY && v.reg == r; }

/* Eight bytes of stack at a known address, and their value. */
struct slot {
	int32_t at;
	uint8_t aligned; /* `at` is relative to the realigned base, otherwise to the CFA */
	uint8_t zero[3]; /* always 0: slot_place() reads the fields up to here as one number */
	struct value value;
};

/* Enough for all saved registers and some copies of the CFA. */
#define STATE_SLOTS 16u

/* What is known before one instruction, on all paths that lead to it. */
struct state {
	struct value reg[16];
	uint32_t align; /* offset + 1 of the instruction that realigned rsp; 0 = none */
	uint16_t known; /* mask of registers: all others are VALUE_ANY */
	bool weak; /* some path here is inferred, as from indirect jumps: the state alone does not overrule .eh_frame */
	bool dead; /* every path here follows a noreturn call */
	uint8_t slot_count;
	uint8_t constants; /* EFFECT_CONSTANT: constants, addresses in the file and bounds are followed; 0: they are not */
	uint8_t frame;     /* 0: that of a call; else enum frame_kind */
	uint8_t abi_flags; /* ABI_* of the file and the code range */
	int32_t lowest; /* lower bound of all slots relative to the CFA, by which most stores need not look at the list */
	struct slot slot[STATE_SLOTS];
};

/* The state at a function's entry. */
extern const struct state state_at_entry;
/* Sets the state in which handlers of an interpreter begin: in a frame of push %rbp; mov %rsp, %rbp, with rsp
 * unknown. */
void state_handler(struct state *s);
/* Copies a state, with only the few slots in use. A loop is faster here than assignment or a memcpy() of variable
 * length. */
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
/* Does an instruction leave the state as it is? Most do: they only touch registers of which nothing is known. */
static inline bool state_leaves(const struct state *s, const struct step *in)
{
	bool leaves = !((in->touches & s->known) | (in->effects & s->constants));

#ifdef ETCH_CHECK_STEPS
	if (leaves)
		state_leaves_check(s, in);
#endif
	return leaves;
}
/* May a rule be made from a register's value? (rbp with its entry value does not count.) */
static inline bool state_rules(const struct state *s, unsigned r)
{
	return s->reg[r].kind == VALUE_CFA || s->reg[r].kind == VALUE_ALIGNED || value_is_entry(s->reg[r], REG_RA);
}
/* Does rbp hold the caller's value? */
static inline bool state_has_callers_rbp(const struct state *s)
{
	return s->reg[ETCH_REG_RBP].kind == VALUE_ENTRY && s->reg[ETCH_REG_RBP].reg == ETCH_REG_RBP;
}
/* Applies the transfer function of an instruction, at offset `at` of the code range. */
void state_transfer(struct state *s, const struct step *in, uint32_t at);
/* Applies the effect of a call that returns: what the callee need not preserve becomes unknown. */
void state_call(struct state *s);
/* Joins `other` into *s. Returns true if *s has changed. */
bool state_join(struct state *s, const struct state *other);
bool state_same(const struct state *a, const struct state *b);
/* Refines the state by the fact that registers a and b are equal. */
void state_equal(struct state *s, unsigned a, unsigned b);
/* Refines the state by the fact that register r is at most n, unsigned. */
void state_limit(struct state *s, unsigned r, int64_t n);
/* Refines the state by the fact that register r is not n: lowers a bound of n by one. */
void state_not(struct state *s, unsigned r, int64_t n);
/* Forgets bounds. Called at the targets of a jump table: there the index has only some of the values below its bound,
 * and the next table with the same index may have fewer entries than the bound says. */
void state_unlimit(struct state *s);
/* Finds the jump table of an indirect jump, as a VALUE_TARGET: address `off` (0: unknown), bytes per entry `reg`,
 * number of entries `most` (0: unknown). Returns false if the jump takes its target from no table. */
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
 * Finds where the caller's rbx and r12 to r15 are (rbp is part of the rule): unchanged in the register, in a slot, or
 * ETCH_SAVE_OTHER where nothing is proven. As in compilers' tables, a slot is preferred to the register as long as
 * nothing can have written to it, so that a row holds longer. Returns the offset from the CFA of such a slot of rbp, or
 * 0 if there is none. *depends becomes the mask of the registers on which all this depends, as long as rsp and the
 * slots stay as they are.
 */
int32_t state_saves(const struct state *s, struct etch_cfi_saves *out, unsigned *depends);
/* Are the saved registers certainly in the same places in two states, if those of one depend on these registers? */
bool saves_hold(const struct state *a, const struct state *b, unsigned registers);

/* What a state can show of a rule. */
enum witness {
	WITNESS_SILENT,   /* the state neither proves nor contradicts the rule */
	WITNESS_CONFIRMS, /* the state proves all parts of the rule */
	WITNESS_DENIES,   /* the state proves that a part of the rule is wrong */
};
/* Judges a rule from another source, such as .eh_frame, by the state. */
enum witness state_witness(const struct state *s, const struct etch_rule *rule);
/* Does what state_witness() does, but faster, for a rule equal to that of state_rule(): only the return address is left
 * to judge. */
enum witness state_witness_own(const struct state *s, const struct etch_rule *rule);
/* Do both states certainly give the same result for every rule? */
bool state_rules_same(const struct state *a, const struct state *b);

#endif
