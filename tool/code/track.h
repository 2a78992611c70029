/* SPDX-License-Identifier: MIT */
/*
 * Follows the addresses of etched objects through one function: from the
 * instruction that brings one into a register (a lea, the GOT, an immediate),
 * over copies and constant offsets, to every load, store and escape.
 *
 * The analysis is a forward dataflow over the instructions, one value a
 * register, and errs to one side: what it cannot follow (a push, a call
 * argument, arithmetic, a jump out with the address in a register) is an escape.
 *
 * Beside addresses it follows what was read from an object, eight bytes at a time,
 * to the calls and jumps that go there. Such a value is of use only as long as the
 * slot still holds it, since the site will follow the slot: `old = ops.f;
 * etch_set(&ops.f, new); old();` must call the old function.
 */
#ifndef CODE_TRACK_H
#define CODE_TRACK_H

#include "code/func.h"

/* What the operand of an instruction refers to: filled in from relocations or
 * addresses before tracking. */
struct ref {
	int32_t object; /* number of an etched object, or -1 */
	bool got;       /* the operand is a slot that holds the object's address */
	int64_t off;    /* bytes from the start of the object */
};

enum use_kind {
	USE_READ,
	USE_STORE,
	USE_ESCAPE,
	USE_CALL,  /* a call or jump to where eight bytes of the object point */
};

/* Why a call by a register is not known to go through the slot. */
enum use_doubt {
	DOUBT_NONE,
	DOUBT_STALE,   /* the slot may have been set since it was read: by a call, another thread, a store */
	DOUBT_PLACE,   /* which slot it was is not known */
	DOUBT_CHANGED, /* the value was computed with */
	DOUBT_PATHS,   /* not on all paths, or of another slot */
};

struct use {
	size_t insn;       /* index in func_code */
	enum use_kind kind;
	int32_t object;
	int64_t off;       /* of the first byte accessed, where known */
	bool off_known;    /* the same place on every path and at every execution */
	bool got;          /* the address came from a GOT slot */
	bool in_register;  /* the operand is relative to a register that holds the address */
	bool pointer;      /* USE_CALL: by a register that holds what was read at off */
	uint8_t doubt;     /* enum use_doubt, with `pointer` */
};

/* Calls in [start, end) that throw land at `pad`, with what calls keep in the registers. */
struct track_pad {
	uint32_t section;
	uint64_t start, end, pad;
};

/* An instruction that may fault, and go on at `to` (etch/extable.h) with what it found
 * in the registers. */
struct track_fault {
	uint32_t section;
	uint64_t insn, to;
};

/* Where control may arrive in a function other than at its start and by its own
 * direct jumps: with anything in the registers. */
struct track_entries {
	const uint64_t *list; /* sorted addresses; others than this function's may be among them */
	size_t count;
	bool anywhere;        /* at any instruction, for all that is known */
	const struct track_pad *pads; /* of this function: sorted by start */
	size_t pad_count;
	const struct track_fault *faults; /* of this function: sorted by insn */
	size_t fault_count;
};

typedef int use_fn(void *arg, const struct use *use);

/*
 * mem[i] and imm[i] are what the memory operand and the immediate of
 * instruction i refer to; `clobbers` may be null. A direct jump whose target is unknown
 * (relocated) has target UINT64_MAX. Calls `fn` once for each use, in address order but for
 * escapes found where paths meet, which come last; stops and returns its value
 * when that is not 0. -1 when out of memory.
 */
int track_uses(const struct func *fn, const struct func_code *code, const struct ref *mem, const struct ref *imm,
               const struct track_entries *entries, struct func_clobbers *clobbers, use_fn *report, void *arg,
               struct error *e);

#endif
