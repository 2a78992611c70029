/* SPDX-License-Identifier: MIT */
/*
 * What is known of the stack at one point of a function: which registers and
 * stack slots hold an address relative to the CFA, or a value that the caller's
 * frame needs back. The lattice of the flow analysis (code/flow.h): merging two
 * states keeps what both know.
 */
#ifndef CODE_STATE_H
#define CODE_STATE_H

#include <etch/orc.h>

#include "arch/x86/stack.h"

enum value_kind {
	VALUE_ANY = 0, /* not known */
	VALUE_CFA,     /* CFA + off */
	VALUE_ENTRY,   /* what register `reg` held at entry; REG_RA: the return address */
	VALUE_ALIGNED, /* base of the realigned frame (state.align) + off */
	VALUE_CONST,   /* off, zero-extended */
	VALUE_PLACE,   /* the link-time address off, wherever that is loaded */
	VALUE_BELOW,   /* at most off: the index of a jump table */
	VALUE_DISTANCE, /* 4 bytes of the jump table at off, an address; 0 = not known which */
	VALUE_TARGET,  /* where the jump table at off says; reg: bytes an entry */
};

#define REG_RA 16u

struct value {
	int32_t off;
	uint8_t kind, reg;
	uint16_t most; /* of a jump table: entries, 0 = not known; of VALUE_ENTRY: 1 = loaded back from a slot */
};

/* 8 bytes of stack at an address that is known, and what they hold. */
struct slot {
	int32_t at;
	uint8_t aligned; /* at is relative to the realigned base, else to the CFA */
	uint8_t zero[3];
	struct value value;
};

/* As many saved registers as there are, and some copies of the CFA. */
#define STATE_SLOTS 16u

struct state {
	struct value reg[16];
	uint32_t align;      /* where in the function rsp was realigned; 0 = nowhere */
	uint16_t known;      /* registers of which something may be known: the others are VALUE_ANY */
	bool weak;           /* a path to here is only what indirect jumps have in common, or the like */
	bool dead;           /* every path to here is behind a call that does not come back */
	uint8_t slot_count;
	uint8_t numbers;     /* STIRS_NUMBER: constants, places in the file and bounds are followed; 0: they are not */
	int32_t lowest;      /* no slot relative to the CFA is below it: most instructions need look at none */
	struct slot slot[STATE_SLOTS];
};

/* At a function's entry. */
extern const struct state state_at_entry;
/* Most states have few slots; assignment would copy them all, and one memcpy() of a length that is not known
 * takes longer than these. */
static inline void state_copy(struct state *to, const struct state *from)
{
	unsigned i;

	__builtin_memcpy(to, from, offsetof(struct state, slot));
	for (i = 0; i < from->slot_count; i++)
		to->slot[i] = from->slot[i];
}
static inline void state_entry(struct state *s) { state_copy(s, &state_at_entry); }
/* Forgets all that is no address of the frame, and that no caller wants back; from then on numbers are not followed. */
void state_plain(struct state *s);
/* For builds that check what others take for granted (make asan): aborts where it does change. */
void state_leaves_check(const struct state *s, const struct step *in);
/*
 * What an instruction does depends on what is known of some registers: where that is nothing,
 * the state stays as it is. Most load to, or compute in, registers that nothing is known of.
 */
static inline bool state_leaves(const struct state *s, const struct step *in)
{
	bool leaves = !((in->touches & s->known) | (in->stirs & s->numbers));

#ifdef ETCH_CHECK_STEPS
	if (leaves)
		state_leaves_check(s, in);
#endif
	return leaves;
}
/* Do rules say anything of what a register holds? But of rbp, that it is the caller's. */
static inline bool state_rules(const struct state *s, unsigned r)
{
	return s->reg[r].kind == VALUE_CFA || s->reg[r].kind == VALUE_ALIGNED ||
	       (s->reg[r].kind == VALUE_ENTRY && s->reg[r].reg == REG_RA);
}
/* The effect of one instruction; what a call changes, where it comes back. */
void state_step(struct state *s, const struct step *in, uint32_t at);
void state_call(struct state *s);
/* Keeps in *s what both know. True when *s changed. */
bool state_merge(struct state *s, const struct state *other);
bool state_same(const struct state *a, const struct state *b);
/* Learns that a compare of two registers came out equal. */
void state_equal(struct state *s, unsigned a, unsigned b);
/* Learns that a register is at most n, unsigned. */
void state_limit(struct state *s, unsigned r, int64_t n);
/* Learns that a register is not n: one less, where it was at most that. */
void state_not(struct state *s, unsigned r, int64_t n);
/* Forgets bounds. Behind a jump table an index has some of the values below its bound, and the
 * compiler knows which: a table of them has fewer entries than the bound says. */
void state_unlimit(struct state *s);
/* The jump table of an indirect jump: its address (0: not known which), bytes an
 * entry, and entries (0: not known how many). False: none is to be seen. */
bool state_table(const struct state *s, const struct step *jump, struct value *out);
/* Is it as at a function's entry: the return address on top, callee-saved
 * registers unchanged? A jump in this state is a tail call. */
bool state_is_entry(const struct state *s);

/* The rule that the state proves; kind UNDEF when it proves no CFA. */
void state_rule(const struct state *s, struct etch_rule *out);

enum witness {
	WITNESS_SILENT,   /* the state does not know */
	WITNESS_CONFIRMS, /* all that the rule says is proven */
	WITNESS_DENIES,   /* something that it says is proven wrong */
};
/* What the state has to say about a rule that somebody else made. */
enum witness state_witness(const struct state *s, const struct etch_rule *rule);
/* ... of one that is what state_rule() makes of it: not wrong, but its return address may not be known. */
enum witness state_witness_own(const struct state *s, const struct etch_rule *rule);
/* Have both the same to say of every rule? False: perhaps not. */
bool state_rules_same(const struct state *a, const struct state *b);

#endif
