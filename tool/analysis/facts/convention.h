/* SPDX-License-Identifier: MIT */
/*
 * Calling conventions of languages, as differences from the psABI (3.2.1). convention.c defines one per language; the
 * analysis tests these properties, never the language.
 */
#ifndef ANALYSIS_FACTS_CONVENTION_H
#define ANALYSIS_FACTS_CONVENTION_H

#include <stdbool.h>

struct convention {
	const char *name;
	bool keeps_none;   /* functions preserve none of the psABI's callee-saved registers */
	bool keeps_rbp;    /* functions preserve rbp, which links frames */
	bool jumps_by_any; /* a tail call may go through memory at any register, as of a closure */
	bool calls_return; /* its compiler knows no function that does not return but those of the run-time system */
	/* Tests for functions of the run-time system, by name; null: there are none. */
	bool (*begins_stack)(const char *function); /* its callee is the outermost frame of a stack */
	bool (*resumes)(const char *function);      /* it does not return, but resumes behind its call by other means */
};

extern const struct convention convention_c, convention_go, convention_ocaml;

#endif
