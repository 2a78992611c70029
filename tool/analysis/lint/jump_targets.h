/* SPDX-License-Identifier: MIT */
/*
 * ETCH-H004 for jump tables, in a linked file that asks for indirect branch tracking (CET IBT): each target of a jump
 * through a table needs an endbr64, unless the jump has a notrack prefix, as compilers write it. check/branches.c
 * checks the other indirect targets.
 */
#ifndef ANALYSIS_LINT_JUMP_TARGETS_H
#define ANALYSIS_LINT_JUMP_TARGETS_H

#include "analysis/flow/flow.h"
#include "report/finding.h"

/* Adds the findings about the code range that `f` has just analysed; addresses are those of observe_range()
 * (analysis/lint/observe.h). */
void targets_observe(struct flow *f, struct findings *out);

#endif
