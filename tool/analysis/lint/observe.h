/* SPDX-License-Identifier: MIT */
/*
 * Findings about the flow of one code range: groups F (flow) and S (stack), and D005 to D007 of docs/findings.md. They
 * are derived from the states of the flow analysis, which holds one code range at a time, so each is observed right
 * after its analysis. Only with frames_options.observe.
 */
#ifndef ANALYSIS_LINT_OBSERVE_H
#define ANALYSIS_LINT_OBSERVE_H

#include "analysis/flow/flow.h"
#include "report/finding.h"

/*
 * Adds the findings about the code range that flow_run() and flow_states() have just analysed, with addresses of the
 * code space and section 0; frames_find() converts these. A caller that analyses a code range again drops its earlier
 * findings.
 */
void observe_range(struct flow *f, struct findings *out);

/*
 * jump_targets.c: adds ETCH-H004 for jump tables, in a linked file that asks for indirect branch tracking (CET IBT):
 * each target of a jump through a table needs an endbr64, unless the jump has a notrack prefix, as compilers write it.
 * check/branches.c checks the other indirect targets.
 */
void targets_observe(struct flow *f, struct findings *out);

#endif
