/* SPDX-License-Identifier: MIT */
/*
 * ETCH-H004 of jump tables, of a linked file that asks for indirect branch tracking: where a
 * jump that is tracked takes its target from a table, each target needs an endbr64.
 * (Compilers jump with notrack there.) Other indirect targets are check/branches.c's.
 */
#ifndef CODE_TARGETS_H
#define CODE_TARGETS_H

#include "code/flow.h"
#include "report/finding.h"

/* As observe_piece() of code/observe.h. */
bool targets_observe(struct flow *f, struct findings *out);

#endif
