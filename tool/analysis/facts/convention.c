/* SPDX-License-Identifier: MIT */
/* The calling conventions that the analysis knows: C, Go, OCaml. */
#include "analysis/facts/convention.h"

#include <stddef.h>
#include <string.h>

/*
 * mcall switches to the thread's stack, as the scheduler left it, and does not return, so its callee is the outermost
 * frame there. (morestack and systemstack switch, too, but their caller's frame is on another stack, which no rule can
 * express.)
 */
static bool go_begins_stack(const char *function) { return !strcmp(function, "runtime.mcall"); }

/* morestack jumps back to its caller after it has moved to a larger stack. */
static bool go_resumes(const char *function) { return !strcmp(function, "runtime.morestack"); }

const struct convention convention_c = {.name = "C", .keeps_rbp = true};
const struct convention convention_go = {.name = "Go",
                                         .keeps_none = true,
                                         .keeps_rbp = true,
                                         .jumps_by_any = true,
                                         .begins_stack = go_begins_stack,
                                         .resumes = go_resumes};
/*
 * Functions preserve nothing; r14 and r15 are reserved for the run-time system. Code behind any call but a raise is
 * where that call returns to, even if it never does: only a raise ends a block (has_fallthrough in asmcomp/linear.ml).
 */
const struct convention convention_ocaml = {.name = "OCaml", .keeps_none = true, .calls_return = true};
