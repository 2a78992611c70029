/* SPDX-License-Identifier: MIT */
/* Findings about one FDE that covers many functions. */
#ifndef ANALYSIS_UNWIND_WIDE_FINDINGS_H
#define ANALYSIS_UNWIND_WIDE_FINDINGS_H

#include "analysis/flow/flow.h"
#include "analysis/unwind/rows.h"
#include "report/finding.h"

/* Where the FDE of the code range of f is wrong for many functions, makes one finding of theirs. rows: all rows of the
 * code range; cfi: those of the FDE. */
void wide_findings_sum(struct findings *l, const struct flow *f, const struct row_list *rows,
                       const struct etch_cfi_row *cfi, size_t cfi_count);

#endif
