/* SPDX-License-Identifier: MIT */
/*
 * Follows the addresses of etched objects through one function: from the instruction that puts an address into a
 * register (a lea, a load from the GOT, an immediate), through copies and constant offsets, to every load, store and
 * escape.
 *
 * This is a forward dataflow analysis with one abstract value per register. It errs on the safe side: wherever it
 * cannot follow an address (a push, a call argument, arithmetic, a jump out of the function with the address in a
 * register), that is an escape.
 *
 * It also follows function pointers, which are eight bytes loaded from an object, to the calls and jumps through them.
 * The slot is the place in the object from which the pointer was loaded. Such a call will be patched so that it calls
 * what the slot holds at the time of the call. So the pointer counts only as long as the slot certainly has not been
 * set since the load: in `old = ops.f; etch_set(&ops.f, new); old();` the old function must be called.
 */
#ifndef ANALYSIS_ADDRESSES_TRACK_H
#define ANALYSIS_ADDRESSES_TRACK_H

#include "analysis/addresses/clobbers.h"
#include "analysis/addresses/imports.h"
#include "analysis/addresses/kernel_reach.h"
#include "dwarf/types.h"

/* Bits that say what an address in an object may denote other than a part of that object: compilers fold the constant
 * part of an index into an address, and an object may begin where another ends. */
enum beside {
	BESIDE_END = 1, /* it may be the end of the object in front */
	/* Together with an index it may be in any object nearby, because no array of this object begins there. */
	BESIDE_ANY = 2,
};

/* The object that an operand of an instruction refers to. These are set from relocations or addresses before
 * tracking. */
struct ref {
	int32_t object; /* number of the etched object, or -1 */
	bool got;       /* the operand is a GOT slot that holds the object's address */
	uint8_t beside; /* enum beside */
	int64_t off;    /* bytes from the start of the object */
};

/* What is done with an object or its address. */
enum use_kind {
	USE_READ,   /* a load from the object */
	USE_STORE,  /* a store to the object */
	USE_ESCAPE, /* its address gets to where it is not followed */
	USE_CALL,   /* a call or jump through a function pointer in the object */
};

/* Why a call through a register may call something other than what the slot holds. */
enum use_doubt {
	DOUBT_NONE,
	DOUBT_STALE,   /* the slot may have been set after the load: by a call, another thread, or a store */
	DOUBT_PLACE,   /* the offset of the slot is unknown */
	DOUBT_CHANGED, /* the value was changed by arithmetic */
	DOUBT_PATHS,   /* it was loaded only on some paths, or from different slots */
};

/* A use of an etched object by an instruction. */
struct use {
	size_t insn; /* index in func_code */
	enum use_kind kind;
	int32_t object;
	int64_t off;      /* offset from the object's start of the first byte accessed; valid if off_known */
	bool off_known;   /* `off` is the same on every path and in every execution */
	bool indexed;     /* off_known is false, and the offset is `off` plus what an index or a loop adds */
	bool got;         /* the object's address came from a GOT slot */
	bool in_register; /* the operand is relative to a register that holds the object's address */
	bool pointer;     /* a USE_CALL through a register whose value was loaded from `off` */
	uint8_t doubt;    /* enum use_doubt; valid only with `pointer` */
	uint8_t beside;   /* enum beside: combined for the addresses from which the operand is computed */
	/* A USE_ESCAPE of a pointer that the program's source has: an argument, a return value, or a store outside of
	 * the stack. Any other escape may be of a pointer that the compiler has made, which is used at other offsets. */
	bool as_pointer;
	bool argument; /* with as_pointer: it is an argument or a return value */
	bool kernel;   /* a USE_ESCAPE to a system call that may store through it (kernel_reach.h) */
};

/* An edge from the calls in [start, end) to a landing pad. On it, callee-saved registers keep their values. */
struct track_pad {
	uint32_t section;
	uint64_t start, end, pad;
};

/* An edge from an instruction that may fault to its fixup (etch/extable.h). On it, registers keep the values from
 * before the instruction. */
struct track_fault {
	uint32_t section;
	uint64_t insn, to;
};

/* A jump back into a function, from a part of it that lies elsewhere and to which only direct jumps of that function
 * lead. */
struct track_return {
	uint64_t insn, to;
	uint32_t part; /* number of the part in the list of functions */
};

/* Where control may enter a function, other than at its start and by its own direct jumps, with unknown values in the
 * registers. Also the edges to landing pads and fixups. */
struct track_entries {
	const uint64_t *list; /* sorted addresses; may include those of other functions */
	/* Per address: it is reached only through the function's own jump tables. */
	const bool *by_table;
	const bool *by_part;                /* per address: it is reached only by the jumps in `returns` */
	const struct track_return *returns; /* the jumps back from the function's parts, sorted by `to` */
	size_t return_count;
	/* Per function of the file: number of jumps of this function that lead there, if it is a part. */
	const uint32_t *ways;
	size_t count;
	/* Sorted addresses of the instructions that load the address of one of the function's own jump tables. */
	const uint64_t *leas;
	size_t lea_count;
	bool anywhere;                /* control may enter at any instruction */
	const struct track_pad *pads; /* of this function, sorted by start */
	size_t pad_count;
	const struct track_fault *faults; /* of this function, sorted by insn */
	size_t fault_count;
};

/* Returns the index of the first element of x->faults whose instruction is at or after an address. */
size_t track_fault_from(const struct track_entries *x, uint64_t addr);

/* Callback for one use. */
typedef void use_fn(void *arg, const struct use *use);

/* A function, and what is known of it from other parts of the file. */
struct track_func {
	const struct func *fn;
	const struct func_code *code; /* the target of a direct jump is UINT64_MAX if a relocation makes it unknown */
	/* Per instruction: the objects to which its memory operand and its immediate refer. */
	const struct ref *mem, *imm;
	const struct track_entries *entries;
	/* Null: every call is assumed to change all registers that the ABI allows. */
	struct func_clobbers *clobbers;
	const struct function_types *types; /* null: DWARF does not describe functions */
	const struct imports *imports;      /* null: functions of other modules are unknown */
	struct kernel_reach *kernel;        /* null: it is unknown where the kernel stores */
};

/*
 * Finds all uses of etched objects in a function, and calls `report` once for each, in order of address. Escapes that
 * are found at joins of paths are reported last.
 */
void track_uses(const struct track_func *f, use_fn *report, void *arg);

#endif
