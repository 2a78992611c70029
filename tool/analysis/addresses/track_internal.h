/* SPDX-License-Identifier: MIT */
/* Shared by the files of address tracking: track_solve.c (basic blocks and fixpoint), track_transfer.c (effect of an
 * instruction), track_address.c, track_detour.c and frame_slots.c. The interface is track.h. */
#ifndef ANALYSIS_ADDRESSES_TRACK_INTERNAL_H
#define ANALYSIS_ADDRESSES_TRACK_INTERNAL_H

#include "analysis/addresses/track.h"
#include "analysis/dataflow/solver.h"

#define REGS 16
/* How many places an address may have in addition to the first one. This is enough for a command that stores to one
 * field for each of a few names. */
#define PLACES_MORE 7

/* Abstract value of a register: the address of an object, a constant, or neither. */
struct addr_value {
	int32_t object; /* number of the object; -1: the value is no address of an object */
	/* With an object: the value is object + off on every path; otherwise it may be any address in the object.
	 * Without an object: the value is the constant `off`. */
	bool exact;
	bool got;       /* the address came from a GOT slot */
	uint8_t beside; /* enum beside: combined for the operands from which it was made */
	/* If `exact`: bytes from the start of the object. If only `rooted`: the same, without what an index or a loop adds.
	 * Without an object: the constant part of a sum, e.g. 8 for arr[i + 8]. */
	int64_t off;
	/*
	 * The value is not `exact`, but all places where it may be are known: `off`, and `off` plus each of the first
	 * `more_count` elements of `more`, as in a ? &o.x : &o.y. On other paths it may not be an address of the object at
	 * all, as in p ? p : &o.x; then the only parts of the object that it reaches are those already reported where that
	 * address escaped. Without an object: the value is certainly one of these constants.
	 */
	bool placed;
	uint8_t more_count;
	int64_t more[PLACES_MORE]; /* distances from `off`, ascending, at least 1 */
	/* It was made from one address of the object and, in addition, constants, an index or a loop. */
	bool rooted;
	int64_t root; /* the offset of that address */
	bool choice;  /* without an object: the value may be one of two constants, as in a ? 8 : 16 */
};

/* Abstract value of a register: a function pointer that was loaded from an object. */
struct loaded {
	int32_t object; /* number of the object; -1: the register holds no such pointer */
	uint8_t doubt;  /* enum use_doubt */
	bool got;       /* the object's address came from a GOT slot */
	/* Offset of the slot in the object. */
	int64_t off;
};

/* The role of a register, on every path, with regard to a jump table to which only this function refers. */
enum table_part {
	TABLE_NONE,
	TABLE_BASE,   /* the address of the table */
	TABLE_ENTRY,  /* an entry of the table: an offset from its address */
	TABLE_TARGET, /* the address of the table plus an entry: where a switch continues */
};

/* The state before an instruction. */
struct addr_state {
	struct addr_value reg[REGS];
	uint8_t table[REGS]; /* enum table_part */
	struct loaded ptr[REGS];
	bool reached; /* some path leads here */
};

/* A basic block. */
struct addr_block {
	size_t first, end;    /* instructions [first, end) */
	struct addr_state in; /* before the first instruction */
};

/* The state of tracking one function. */
struct track {
	const struct track_func *f;
	size_t last; /* index of the last instruction that is not padding */
	struct addr_block *blocks;
	size_t block_count;
	struct worklist list; /* worklist of blocks */
	/* Per entry of the function: only detours lead there; null if that holds for no entry. */
	bool *by_detour;
	/* There is code to which no known path leads, and which may use callee-saved registers. */
	bool opaque;
	bool reporting;            /* the fixpoint has been reached, and uses are reported */
	struct addr_state unknown; /* the state where control enters from elsewhere: nothing is known */
	use_fn *report;
	void *arg;
	struct use *met; /* escapes that joins have found, one per object */
	size_t met_count, met_capacity;
};

static const struct addr_value nothing = {.object = -1};
static const struct loaded no_pointer = {-1, DOUBT_NONE, false, 0};

/* Does some register hold an address of an object? */
static inline bool holds_address(const struct addr_state *s)
{
	unsigned r;

	for (r = 0; r < REGS && s->reg[r].object < 0; r++)
		;
	return r < REGS;
}

/* ---- track_solve.c ---- */
/* Joins the value *v into *a, the value of register `reg` before instruction `insn`. Returns true if *a has changed. If
 * they are addresses of different objects, neither is kept: both escape, unless the following code uses the register
 * only to set what it points to. */
bool track_join(struct track *t, size_t insn, unsigned reg, struct addr_value *a, const struct addr_value *v);
/* Is the value that register `reg` holds before an instruction only passed to ETCH_ADDR, and then overwritten? Only one
 * path is followed; returns false if it branches before the register is overwritten. */
bool track_only_set(const struct track *t, size_t insn, unsigned reg);
/* Does instruction i begin a block? */
bool track_is_leader(const struct track *t, size_t i);

/* ---- track_address.c ---- */
/* Sets *out to the join of two addresses of one object, two constants, or an address and a constant, as a list of
 * places. Returns false if not all places are known, or if there are too many. */
bool track_places_join(const struct addr_value *a, const struct addr_value *v, struct addr_value *out);
/* Forgets all places of a value except for `off`. */
static inline void track_places_drop(struct addr_value *v)
{
	v->placed = false;
	v->more_count = 0;
}
/* Returns off + by, with wrap-around: in a hostile file both may be any numbers, and overflow of signed integers is
 * undefined. */
int64_t track_moved(int64_t off, int64_t by);
/* Adds the value of register r, multiplied by `scale`, to an address. The value is an index, unless it is known to be
 * one of a few constants. */
void track_index_add(struct addr_value *v, const struct addr_state *s, unsigned r, unsigned scale);
/* Returns the address to which the memory operand of instruction i refers, directly or through a register (*in_register
 * says which). If there is none, its object is -1. */
struct addr_value track_operand(const struct track *t, const struct addr_state *s, size_t i, bool *in_register);
/* Returns the sum of the address in a GOT slot and the register that is the destination of an add instruction. */
struct addr_value track_sum_load(const struct addr_state *s, const struct insn *in, const struct addr_value *slot);
/* If a lea computes no address of an object, stores the constant part of the sum in *result. */
void track_sum(const struct addr_state *s, const struct insn *in, struct addr_value *result);

/* Adds an address and an index, or two indexes, for an instruction that adds two registers. The sum of two addresses is
 * no address, so both escape. */
void track_registers_sum(const struct addr_state *s, const struct insn *in, struct addr_value *result, uint16_t *data);

/*
 * Finds the value that instruction i puts into register *reg, if it is one of these: a cmov between registers, an
 * instruction that clears a register, a setcc to a register that holds 0, or a shift of the result of setcc. Returns
 * false for any other instruction. *data has the registers that the instruction reads; a cmov removes from it those
 * whose addresses it only moves.
 */
bool track_choice(struct track *t, const struct addr_state *s, size_t i, uint16_t *data, struct addr_value *out,
                  unsigned *reg);

/* ---- track_detour.c ---- */
/* A detour: code of another function to which a jump leads, and which does nothing but jump back, or end the
 * program. */
struct detour {
	uint16_t touched; /* mask of the registers that it reads or writes */
	size_t count;
#define DETOUR_BACK_MOST 8
	/* Indexes of the instructions of the tracked function to which it jumps back. */
	size_t back[DETOUR_BACK_MOST];
	uint64_t from[DETOUR_BACK_MOST]; /* addresses of the jumps that lead back */
};
/* Does a jump out of the function begin a detour? Sets *out if so. Always false in object files, where relocations have
 * the targets of jumps. */
bool track_detour(const struct track *t, const struct insn *in, struct detour *out);
/* Finds the entries of the function to which only detours lead. Sets t->by_detour, or leaves it null if there are
 * none. */
void track_detours_back(struct track *t);

/* ---- track_transfer.c ---- */
/* Returns the registers whose values a call, or a jump out of the function, passes on. If the target is in the file,
 * these are the registers that are live there; otherwise they are those in `abi`. */
uint16_t track_passed(const struct track *t, const struct insn *in, uint16_t abi);
/* Does an address lie outside of the function? */
bool track_is_outside(const struct track *t, uint64_t addr);
/* Marks loaded pointers as stale, because slots of an object (-1: of any object) may have been set since the load. */
void track_pointers_age(struct addr_state *s, int32_t object);
/* Returns the address of the landing pad of the call at an address, or 0 if it has none. */
uint64_t track_pad_of(const struct track *t, uint64_t addr);
/* Changes *s from the state before instruction i to the state after it. Reports the uses that the instruction makes, if
 * t->reporting. */
void track_insn(struct track *t, struct addr_state *s, size_t i);
/* Does the instruction jump to an entry of one of the function's own jump tables, given the state before it? */
bool track_is_switch(const struct addr_state *s, const struct insn *in);

/* ---- frame_slots.c: what a function keeps in its stack frame, which are registers that it spills or variables of the
 * program ---- */
/*
 * Does instruction i store a register to a word of the frame that the function itself never reads through the stack
 * pointer? Then it is not a spill, which would be loaded again, but an argument, or a variable that something points
 * to. Returns false if this is not known.
 */
bool frame_slot_is_variable(const struct track_func *f, size_t i);

/*
 * Does instruction i push a register, of which at least half a word is overwritten before anything can read the pushed
 * word? Compilers push any register, whatever it holds, to make space for a variable of up to 8 bytes (clang 19: push
 * %rax). The other half of an address is no address.
 */
bool frame_push_is_overwritten(const struct track_func *f, size_t i);

#endif
