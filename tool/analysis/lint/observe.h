/* SPDX-License-Identifier: MIT */
/*
 * Finds suspicious code in one code range: the finding groups F (flow) and S (stack), and D005 to D007 of
 * docs/findings.md. The findings are derived from the states of the flow analysis. That holds one code range at a time,
 * so each code range is observed right after its analysis. Only used with frames_options.observe.
 */
#ifndef ANALYSIS_LINT_OBSERVE_H
#define ANALYSIS_LINT_OBSERVE_H

#include "analysis/flow/flow.h"
#include "report/finding.h"

/*
 * Adds the findings about the code range that flow_run() and flow_states() have just analysed. They have addresses of
 * the code space and section 0; frames_find() converts these. If a code range is analysed again, the caller drops its
 * earlier findings.
 */
void observe_range(struct flow *f, struct findings *out);

/*
 * jump_targets.c: in a linked file that asks for indirect branch tracking (CET IBT), adds ETCH-H004 for jump tables.
 * Each target of a jump through a table needs an endbr64, unless the jump has a notrack prefix, which compilers give
 * it. check/branches.c checks the other targets of indirect jumps and calls.
 */
void targets_observe(struct flow *f, struct findings *out);

#endif
