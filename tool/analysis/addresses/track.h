/* SPDX-License-Identifier: MIT */
/*
 * Follows the addresses of etched objects through one function: from the instruction that brings an address into a
 * register (a lea, the GOT, an immediate), over copies and constant offsets, to every load, store and escape.
 *
 * This is a forward dataflow analysis with one abstract value per register. It errs on the safe side: whatever it
 * cannot follow (a push, a call argument, arithmetic, a jump out of the function with the address in a register) is an
 * escape.
 *
 * It also follows function pointers, which are eight bytes loaded from an object, to the calls and jumps through them.
 * A call site will be patched to follow the slot, so the pointer counts only while the slot certainly still holds it:
 * `old = ops.f; etch_set(&ops.f, new); old();` must call the old function.
 */
#ifndef ANALYSIS_ADDRESSES_TRACK_H
#define ANALYSIS_ADDRESSES_TRACK_H

#include "analysis/addresses/clobbers.h"
#include "analysis/addresses/imports.h"
#include "analysis/addresses/kernel_reach.h"
#include "dwarf/types.h"

/* What else an address in an object may denote, as bits: compilers fold the constant part of an index into an address,
 * and an object may begin where another ends. */
enum beside {
	BESIDE_END = 1, /* the end of the object before it */
	BESIDE_ANY = 2, /* with an index, any object near it: no array of this object begins there */
};

/* The object that an operand of an instruction refers to; set from relocations or addresses before tracking. */
struct ref {
	int32_t object; /* number of the etched object, or -1 */
	bool got;       /* the operand is a GOT slot that holds the object's address */
	uint8_t beside; /* enum beside */
	int64_t off;    /* bytes from the start of the object */
};

enum use_kind {
	USE_READ,   /* a load from the object */
	USE_STORE,  /* a store to the object */
	USE_ESCAPE, /* its address leaves the registers that are followed */
	USE_CALL,   /* a call or jump through a function pointer in the object */
};

/* Why a call through a register is not certain to call what the slot holds. */
enum use_doubt {
	DOUBT_NONE,
	DOUBT_STALE,   /* the slot may have been set since the load: by a call, another thread, a store */
	DOUBT_PLACE,   /* the slot's offset is unknown */
	DOUBT_CHANGED, /* the value is the result of arithmetic */
	DOUBT_PATHS,   /* loaded only on some paths, or from different slots */
};

struct use {
	size_t insn; /* index in func_code */
	enum use_kind kind;
	int32_t object;
	int64_t off;      /* offset of the first byte accessed from the object's start; valid if off_known */
	bool off_known;   /* the offset is the same on every path and in every execution */
	bool indexed;     /* not off_known: the offset is `off` plus what an index, or a loop, adds */
	bool got;         /* the address came from a GOT slot */
	bool in_register; /* the operand is relative to a register that holds the address */
	bool pointer;     /* USE_CALL through a register that was loaded from `off` */
	uint8_t doubt;    /* enum use_doubt; only with `pointer` */
	uint8_t beside;   /* enum beside, of the addresses that it is made from */
	bool as_pointer;  /* USE_ESCAPE as a pointer of the program: an argument, a return value, or stored outside of the
	                   * stack. Any other escape may be a pointer of the compiler, which is used at other offsets */
	bool argument;    /* as_pointer: it is an argument or a return value */
	bool kernel;      /* USE_ESCAPE: to a system call that may store through it (kernel_reach.h) */
};

/* An edge from the calls in [start, end) to a landing pad. Callee-saved registers keep their values. */
struct track_pad {
	uint32_t section;
	uint64_t start, end, pad;
};

/* An edge from an instruction that may fault to its fixup (etch/extable.h). The registers hold there what they held
 * before the instruction. */
struct track_fault {
	uint32_t section;
	uint64_t insn, to;
};

/* A jump back into a function from a part of it to which only direct jumps of that function lead. */
struct track_return {
	uint64_t insn, to;
	uint32_t part; /* number of the part among the functions */
};

/* Where control may enter a function other than at its start and by its own direct jumps, with any values in the
 * registers; and its exceptional edges. */
struct track_entries {
	const uint64_t *list;               /* sorted addresses; may include those of other functions */
	const bool *by_table;               /* per address: only jumps through the function's own jump tables lead there */
	const bool *by_part;                /* per address: only jumps in `returns` lead there */
	const struct track_return *returns; /* from the function's parts, sorted by `to` */
	size_t return_count;
	const uint32_t *ways; /* per number of a part: how many jumps lead there */
	size_t count;
	const uint64_t *leas; /* sorted addresses of the instructions that load the address of such a jump table */
	size_t lea_count;
	bool anywhere;                /* control may enter at any instruction */
	const struct track_pad *pads; /* of this function, sorted by start */
	size_t pad_count;
	const struct track_fault *faults; /* of this function, sorted by insn */
	size_t fault_count;
};

/* Returns the index of the first element of x->faults at or after an address. */
size_t track_fault_from(const struct track_entries *x, uint64_t addr);

/* Callback for one use. */
typedef void use_fn(void *arg, const struct use *use);

/* A function, and what is known of it from elsewhere in the file. */
struct track_func {
	const struct func *fn;
	const struct func_code *code; /* a direct jump with a relocated, unknown target has target UINT64_MAX */
	const struct ref *mem, *imm;  /* per instruction: the objects that its memory operand and its immediate refer to */
	const struct track_entries *entries;
	struct func_clobbers *clobbers;     /* null: calls clobber all that the ABI allows */
	const struct function_types *types; /* null: DWARF does not describe functions */
	const struct imports *imports;      /* null: nothing is known of the functions of other modules */
	struct kernel_reach *kernel;        /* null: nothing is known of where the kernel stores */
};

/*
 * Reports all uses of etched objects in a function: calls `report` once per use, in order of address, except for
 * escapes found at joins, which come last.
 */
void track_uses(const struct track_func *f, use_fn *report, void *arg);

#endif
