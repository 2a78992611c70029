/* SPDX-License-Identifier: MIT */
/*
 * Findings about the flow of one code range: groups F (flow) and S (stack), D005 and D006 of docs/findings.md. With
 * frames_options.observe; run on a code range right after its flow analysis, and based on the states of that.
 */
#ifndef ANALYSIS_LINT_OBSERVE_H
#define ANALYSIS_LINT_OBSERVE_H

#include "analysis/flow/flow.h"
#include "report/finding.h"

/*
 * Adds the findings about the code range that flow_run() and flow_states() have just analysed. They have addresses of
 * the code space and section 0, which frames_find() converts. Where a code range is analysed again, the caller has to
 * drop its earlier findings. False: out of memory.
 */
bool observe_range(struct flow *f, struct findings *out);

#endif
