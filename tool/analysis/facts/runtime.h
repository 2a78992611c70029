/* SPDX-License-Identifier: MIT */
/*
 * The ways in which the code of a language runtime differs from the psABI's C: one row of the table in
 * analysis/runtimes/runtimes.c. The rest of the analysis asks for these properties, never for the language.
 */
#ifndef ANALYSIS_FACTS_RUNTIME_H
#define ANALYSIS_FACTS_RUNTIME_H

#include <stdbool.h>

#include "analysis/facts/space.h"

/* A calling convention, as differences from the psABI (3.2.1). */
struct convention {
	bool keeps_none;    /* functions preserve none of the psABI's callee-saved registers */
	bool keeps_rbp;     /* functions preserve rbp, which links frames */
	bool jumps_by_any;  /* a tail call may go through memory at any register, as that of a closure does */
	bool frames_by_rbp; /* callees may take any number of arguments off the stack, so callers find their frames by rbp,
	                       which functions preserve, and rsp after a call is what the callee makes it */
	bool calls_return;  /* its compiler knows no function that does not return, except those of the run-time system */
	/* Tests for functions of the run-time system, by name. Null: there are none. */
	bool (*begins_stack)(const char *function); /* its callee is the outermost frame of a stack */
	bool (*resumes)(const char *function);      /* it does not return, but resumes after its call by other means */
};

/* Code of a runtime in a file. */
struct runtime_code {
	uint64_t start, end; /* addresses of the code space */
	const struct runtime *runtime;
	bool listed; /* it is one function, as the runtime's own table lists it; else it consists of functions of other
	                sources */
	bool part;   /* it begins in the frame of another (code_range.part) */
	const char *function; /* its name in that table; or null */
	bool outermost;       /* that function is the outermost frame of a stack */
	bool framed; /* it begins in the frame of other code, which returns or jumps there: it is no function, whatever its
	                symbol says */
};

struct runtime_codes {
	struct runtime_code *list;
	size_t count, capacity;
};

struct runtime {
	const char *name;
	/* Appends what code of the runtime a file has. Returns 0, or -1 and a message if the file is malformed. Null: the
	 * code shows itself to own_stack->enters(), or is not distinguished. */
	int (*detect)(const struct elf_file *f, const struct code_space *space, struct runtime_codes *out, struct error *e);
	bool lists; /* detect() finds functions, too: they are code ranges even without a convention */
	/* Saved registers, and how code is called and left. Null: as in C, or not followed (etch check explains
	 * findings). */
	const struct convention *convention;
	/* Classifies code without frames on the C stack, and gives its rule (analysis/flow/flow.h). Null: frames are as in
	 * C. */
	const struct flow_runtime *own_stack;
	/* Names of functions that do not return; ends with a null pointer. Null: there are none. */
	const char *const *noreturn;
};

#endif
