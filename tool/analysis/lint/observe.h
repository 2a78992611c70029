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

#endif
