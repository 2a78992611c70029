/* SPDX-License-Identifier: MIT */
/*
 * gcc_abi.h: the types that raisers, personality routines and libgcc share (Itanium C++ ABI: Exception Handling,
 * level I), and libgcc's own layout of a context (unwind-dw2.c of gcc 4.3 and later), which start.c compares with
 * that of the libgcc in the process.
 */
#ifndef ETCH_LIB_EXCEPTIONS_GCC_ABI_H
#define ETCH_LIB_EXCEPTIONS_GCC_ABI_H

#include <stdint.h>

enum reason {
	REASON_NONE = 0,
	REASON_FATAL_PHASE2 = 2,
	REASON_FATAL_PHASE1 = 3,
	REASON_END_OF_STACK = 5,
	REASON_HANDLER_FOUND = 6,
	REASON_INSTALL_CONTEXT = 7,
	REASON_CONTINUE = 8,
};

enum action {
	ACTION_SEARCH = 1,
	ACTION_CLEANUP = 2,
	ACTION_HANDLER_FRAME = 4,
};

/*
 * struct _Unwind_Exception. The private words mean to this library what they mean to libgcc, so that either can
 * continue with the other's exception: private_1 is the stop function of a forced unwind, or 0; private_2 is the
 * stack pointer of the frame with the handler.
 */
struct exception {
	uint64_t class;
	void *cleanup;
	uint64_t private_1, private_2;
};

/* Numbers of registers in a context (psABI, figure 3.36). */
enum {
	DWARF_RAX = 0,
	DWARF_RDX = 1,
	DWARF_RBX = 3,
	DWARF_RBP = 6,
	DWARF_RSP = 7,
	DWARF_R12 = 12,
	DWARF_RIP = 16,
	DWARF_COUNT = 18,
};

/* struct _Unwind_Context. A register is the address of its value, or the value itself where by_value is set. */
struct gcc_context {
	uint64_t reg[DWARF_COUNT];
	uint64_t cfa; /* the frame's stack pointer */
	uint64_t ra;  /* the address in the frame's function */
	uint64_t lsda;
	uint64_t text_base, data_base, function;
	uint64_t flags;
	uint64_t version, args_size;
	uint8_t by_value[DWARF_COUNT];
};

#define GCC_CONTEXT_EXTENDED ((uint64_t)1 << 62) /* flags: the context has by_value */
#define GCC_CONTEXT_SIGNAL   ((uint64_t)1 << 63) /* flags: ra is the address of an interrupted instruction */

typedef int personality_fn(int version, int actions, uint64_t class, struct exception *e, struct gcc_context *context);

#endif
