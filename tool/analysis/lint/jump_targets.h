/* SPDX-License-Identifier: MIT */
/*
 * ETCH-H004 for jump tables, in a linked file that asks for indirect branch tracking (CET IBT): each target of a
 * tracked jump through a table needs an endbr64. (Compilers use notrack jumps there.) check/branches.c checks the other
 * indirect targets.
 */
#ifndef ANALYSIS_LINT_JUMP_TARGETS_H
#define ANALYSIS_LINT_JUMP_TARGETS_H

#include "analysis/flow/flow.h"
#include "report/finding.h"

/* Adds the findings of the code range just analysed, like observe_range() (analysis/lint/observe.h). False: out of
 * memory. */
bool targets_observe(struct flow *f, struct findings *out);

#endif
