/* SPDX-License-Identifier: MIT */
/* Findings ETCH-C001: where the code contradicts .eh_frame. */
#ifndef ANALYSIS_UNWIND_DISAGREEMENT_H
#define ANALYSIS_UNWIND_DISAGREEMENT_H

#include "analysis/facts/cfi_file.h"
#include "analysis/unwind/rows.h"
#include "report/finding.h"

struct flow;

/* The ID of these findings. */
#define CONTRADICTED "ETCH-C001"

/* Up to so many contradicted functions of one FDE have findings of their own. */
#define DISAGREEMENTS_FEW 3u

/* Adds the finding that from `addr` on the code has the rule `code` where .eh_frame has `cfi`. */
void disagreement_add(struct findings *l, uint64_t addr, const struct etch_rule *code, const struct etch_rule *cfi);

/*
 * Adds the finding that .eh_frame has `cfi` at `addr`, where a jump leads in another state than a function's entry and
 * perhaps calls lead, too. `code` is the rule of the side that contradicts .eh_frame: with `called` that of an entry,
 * otherwise the jump's (kind UNDEF if its states differ).
 */
void disagreement_jump(struct findings *l, uint64_t addr, uint64_t jump, const struct etch_rule *code, bool called,
                       const struct etch_rule *cfi);
/* Adds the finding that .eh_frame has `cfi`, a function's entry, at `addr`, where code begins that takes `bytes` more
 * bytes off the stack than an entry has there. */
void disagreement_overdrawn(struct findings *l, uint64_t addr, int32_t bytes, const struct etch_rule *cfi);

/*
 * One FDE that is wrong for more than DISAGREEMENTS_FEW functions is one mistake: where the FDE of the code range of f
 * is, replaces the findings of these functions by one. rows: all rows of the code range; cfi: those of the FDE.
 */
void disagreements_sum(struct findings *l, const struct flow *f, const struct row_list *rows,
                       const struct etch_cfi_row *cfi, size_t cfi_count);

#endif
