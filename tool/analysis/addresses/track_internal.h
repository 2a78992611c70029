/* SPDX-License-Identifier: MIT */
/* Shared by the files of address tracking: track_solve.c (basic blocks, fixpoint) and track_transfer.c (transfer
 * function). The interface is track.h. */
#ifndef ANALYSIS_ADDRESSES_TRACK_INTERNAL_H
#define ANALYSIS_ADDRESSES_TRACK_INTERNAL_H

#include "analysis/addresses/track.h"
#include "analysis/dataflow/solver.h"

#define REGS 16
/* How many places an address may be at beside the first one: enough for a command that stores to one field for each of
 * a few names. */
#define PLACES_MORE 7

/* Lattice value of a register: the address of an object that it may hold. */
struct addr_value {
	int32_t object; /* -1: no object's address */
	bool exact; /* object + off on every path; otherwise perhaps any address in the object. Without an object: the value
	             * is the constant `off` */
	bool got;   /* the address came from a GOT slot */
	uint8_t beside; /* enum beside, of the operands that it is made from */
	/* Bytes from the object's start, if `exact`; if only `rooted`, without what an index or a loop adds. Without an
	 * object: the constant in a sum, so that for arr[i + 8] the 8 is known. */
	int64_t off;
	/*
	 * The value is not `exact`, but all places where it may be are known: `off`, and `off` plus each of the first
	 * `more_count` distances, as in a ? &o.x : &o.y. On other paths it may be no address of the object, as in p ? p :
	 * &o.x; then it reaches nothing of the object that has not been reported where that address escaped. Without an
	 * object: the value is certainly one of these constants.
	 */
	bool placed;
	uint8_t more_count;
	int64_t more[PLACES_MORE]; /* ascending, from 1 */
	bool rooted;               /* made from one address of the object and constants, an index or a loop */
	int64_t root;              /* that address */
	bool choice;               /* without an object: perhaps one of two constants, as in a ? 8 : 16 */
};

/* Lattice value of a register: the function pointer in an object that was loaded into it. */
struct loaded {
	int32_t object; /* -1: no such pointer */
	uint8_t doubt;  /* enum use_doubt */
	bool got;       /* the object's address came from a GOT slot */
	int64_t off;
};

/* The part that a register plays, on every path, for a jump table that only this function refers to. */
enum table_part {
	TABLE_NONE,
	TABLE_BASE,   /* the address of the table */
	TABLE_ENTRY,  /* an entry of the table: an offset from its address */
	TABLE_TARGET, /* the address plus an entry: where a switch goes */
};

struct addr_state {
	struct addr_value reg[REGS];
	uint8_t table[REGS]; /* enum table_part */
	struct loaded ptr[REGS];
	bool reached; /* some path leads here */
};

struct addr_block {
	size_t first, end;    /* instructions [first, end) */
	struct addr_state in; /* before the first instruction */
};

struct track {
	const struct track_func *f;
	size_t last; /* index of the last instruction that is not padding */
	struct addr_block *blocks;
	size_t block_count;
	struct worklist list;      /* of blocks */
	bool *by_detour;           /* per entry: only detours lead there; null if there is no such entry */
	bool opaque;               /* there is code without known predecessors, which may use callee-saved registers */
	bool reporting;            /* the fixpoint is reached: report uses */
	struct addr_state unknown; /* the state at an entry */
	use_fn *report;
	void *arg;
	struct use *met; /* escapes found at joins, one per object */
	size_t met_count, met_capacity;
};

static const struct addr_value nothing = {.object = -1};
static const struct loaded no_pointer = {-1, DOUBT_NONE, false, 0};

static inline bool holds_address(const struct addr_state *s)
{
	unsigned r;

	for (r = 0; r < REGS && s->reg[r].object < 0; r++)
		;
	return r < REGS;
}

/* track_solve.c */
/* Joins an address into *a, which is in register `reg` before instruction `insn`. Returns true if *a changed. Of the
 * addresses of different objects none is kept: they escape, unless the following code only sets through the
 * register. */
bool track_join(struct track *t, size_t insn, unsigned reg, struct addr_value *a, const struct addr_value *v);
/* Is what register `reg` holds before an instruction only passed to ETCH_ADDR, on the one path that follows, and
 * overwritten then? Returns false also if the path branches before that. */
bool track_only_set(const struct track *t, size_t insn, unsigned reg);
/* Does instruction i begin a block? */
bool track_is_leader(const struct track *t, size_t i);

/* track_address.c */
/* Joins the places where two addresses of one object may be, or two constants. Returns false if they are not known, or
 * too many. */
bool track_places_join(const struct addr_value *a, const struct addr_value *v, struct addr_value *out);
/* Forgets all places other than the one of an exact address. */
static inline void track_places_drop(struct addr_value *v)
{
	v->placed = false;
	v->more_count = 0;
}
/* Returns off + by with wrap-around: in a hostile file both may be any numbers, and signed overflow is undefined. */
int64_t track_moved(int64_t off, int64_t by);
/* Adds to an address what register r holds, times a scale. That is an index, except for the constant in it. */
void track_index_add(struct addr_value *v, const struct addr_state *s, unsigned r, unsigned scale);
/* Returns the address that the memory operand of instruction i refers to, directly or through a register; its object is
 * -1 if there is none. */
struct addr_value track_operand(const struct track *t, const struct addr_state *s, size_t i, bool *in_register);
/* Returns the sum of what a GOT slot holds and the register that is the destination of an add. */
struct addr_value track_sum_load(const struct addr_state *s, const struct insn *in, const struct addr_value *slot);
/* Finds the constant in the sum that a lea makes, if it makes no object's address. */
void track_sum(const struct addr_state *s, const struct insn *in, struct addr_value *result);

/* Adds an address and an index, or two indexes. The sum of two addresses is no address, and both escape. */
void track_registers_sum(const struct addr_state *s, const struct insn *in, struct addr_value *result, uint16_t *data);

/*
 * Finds what an instruction makes in register *reg if it is a cmov of registers, clears a register, is a setcc to a
 * register that is 0, or shifts the outcome of one; returns false if it is none of these. A cmov takes the registers
 * whose addresses it moves out of *data, the registers that it reads.
 */
bool track_choice(struct track *t, const struct addr_state *s, size_t i, uint16_t *data, struct addr_value *out,
                  unsigned *reg);

/* track_detour.c */
/* Code of another function to which a jump leads, and which only leads back or ends. */
struct detour {
	uint16_t touched; /* mask of the registers that it reads or writes */
	size_t count;
#define DETOUR_BACK_MOST 8
	size_t back[DETOUR_BACK_MOST];   /* instructions of the tracked function that it leads back to */
	uint64_t from[DETOUR_BACK_MOST]; /* the jumps that lead back */
};
/* Does a jump out of the function lead to such code? Object files are not followed, since relocations have the
 * targets. */
bool track_detour(const struct track *t, const struct insn *in, struct detour *out);
/* Finds the entries of the function to which only such code leads. Fills t->by_detour, or leaves it null if there are
 * none. */
void track_detours_back(struct track *t);

/* track_transfer.c */
/* Returns the registers whose values a call, or a jump out of the function, passes on: those that are live at the
 * target, if that is in the file, and otherwise those in `abi`. */
uint16_t track_passed(const struct track *t, const struct insn *in, uint16_t abi);
/* Does an address lie outside of the function? */
bool track_is_outside(const struct track *t, uint64_t addr);
/* Marks loaded pointers as stale: the slots of an object (-1: of all objects) may have been set since the load. */
void track_pointers_age(struct addr_state *s, int32_t object);
/* Returns the landing pad of the call at an address, or 0. */
uint64_t track_pad_of(const struct track *t, uint64_t addr);
/* Transforms the state before instruction i into the state after it; reports its uses if t->reporting. */
void track_insn(struct track *t, struct addr_state *s, size_t i);
/* Is the instruction a jump to an entry of the function's own jump tables, in the state before it? */
bool track_is_switch(const struct addr_state *s, const struct insn *in);

/* frame_slots.c: what a function keeps in its stack frame, registers that it spills or variables of the program. */
/*
 * Does instruction i store a register to a word of the frame that the function itself never reads through the stack
 * pointer? Then it is not a spill, which would be loaded again, but a variable that something points to, or an
 * argument. Returns false where this is not known.
 */
bool frame_slot_is_variable(const struct track_func *f, size_t i);

/*
 * Is instruction i a push of a register whose word is overwritten, at least half of it, before anything can read it?
 * Compilers push any register to make space for a variable of up to 8 bytes (clang 19: push %rax), whatever it holds.
 * Half an address is no address.
 */
bool frame_push_is_overwritten(const struct track_func *f, size_t i);

#endif
