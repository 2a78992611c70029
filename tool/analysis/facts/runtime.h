/* SPDX-License-Identifier: MIT */
/*
 * The ways in which the code of a language runtime differs from C as the psABI describes it. A struct runtime is one
 * row of the table in analysis/runtimes/runtimes.c. The rest of the analysis asks for these properties, and never for
 * the language.
 */
#ifndef ANALYSIS_FACTS_RUNTIME_H
#define ANALYSIS_FACTS_RUNTIME_H

#include <stdbool.h>

#include "analysis/facts/space.h"

/* A calling convention, as differences from the psABI (3.2.1). */
struct convention {
	bool keeps_none;    /* functions preserve none of the psABI's callee-saved registers */
	bool keeps_rbp;     /* functions preserve rbp, which points from each frame to its caller's */
	bool jumps_by_any;  /* a tail call may jump to an address in memory at any register, as that of a closure does */
	bool frames_by_rbp; /* callees may take any number of arguments off the stack, so callers find their frames by rbp,
	                       which functions preserve, and rsp after a call is what the callee makes it */
	bool calls_return;  /* its compiler takes no function for noreturn, except some of the run-time system */
	/* Tests for functions of the run-time system, by name. Null: there are none. */
	bool (*begins_stack)(const char *function); /* the function that it calls is the outermost frame of a stack */
	/* it does not return, but control later continues after its call by other means */
	bool (*resumes)(const char *function);
};

/* A piece of code in a file that belongs to a runtime. */
struct runtime_code {
	uint64_t start, end; /* addresses of the code space */
	const struct runtime *runtime;
	bool listed; /* true: it is one function, which the runtime's own table lists; false: other sources say which
	                functions are in it */
	bool part;   /* it is no function, and begins in the frame of other code (code_range.part) */
	const char *function; /* its name in that table; or null */
	bool outermost;       /* the function is the outermost frame of a stack */
	bool framed; /* it begins in the frame of other code, which returns or jumps there, so it is no function, whatever
	                its symbol says */
};

struct runtime_codes {
	struct runtime_code *list;
	size_t count, capacity;
};

struct runtime {
	const char *name;
	/* Appends the pieces of code in a file that belong to the runtime. Returns 0, or -1 and a message if the file is
	 * malformed. Null: own_stack->enters() finds the code, or it is not distinguished from other code. */
	int (*detect)(const struct elf_file *f, const struct code_space *space, struct runtime_codes *out, struct error *e);
	bool lists; /* detect() also finds single functions, which become code ranges even if `convention` is null */
	/* How functions are called and left, and which registers they preserve. Null: as in C, or in a way that the
	 * analysis does not follow (etch check explains the findings that result). */
	const struct convention *convention;
	/* Recognizes code that has no frames on the C stack, and gives its unwind rule (analysis/flow/flow.h). Null: frames
	 * are as in C. */
	const struct flow_runtime *own_stack;
	/* Names of functions that do not return; ends with a null pointer. Null: there are none. */
	const char *const *noreturn;
};

#endif
