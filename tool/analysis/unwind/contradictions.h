/* SPDX-License-Identifier: MIT */
/* ETCH-C001: where the code contradicts .eh_frame, with both sides; and one finding for an FDE that is wrong for many
 * functions. */
#ifndef ANALYSIS_UNWIND_CONTRADICTIONS_H
#define ANALYSIS_UNWIND_CONTRADICTIONS_H

#include "analysis/flow/flow.h"
#include "analysis/unwind/rows.h"
#include "report/finding.h"

/* The rows of a code range beside those of .eh_frame. */
struct witnesses {
	const struct code_range *range;
	const struct row *rows;
	size_t row_count;
	const struct etch_cfi_row *cfi; /* clipped to the code range */
	size_t cfi_count;
};

/* Adds ETCH-C001 with the rules of both sides. False: out of memory. */
bool contradiction_add(struct findings *out, uint64_t addr, const struct etch_rule *code, const struct etch_rule *cfi);

/*
 * One FDE that is wrong for more than a few functions is one mistake: replaces their findings in the list of the code
 * range by one at its start. False: out of memory.
 */
bool contradictions_sum(struct findings *list, const struct flow *f, const struct witnesses *w);

#endif
