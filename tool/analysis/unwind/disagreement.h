/* SPDX-License-Identifier: MIT */
/* Adds the findings ETCH-C001: the code contradicts .eh_frame. */
#ifndef ANALYSIS_UNWIND_DISAGREEMENT_H
#define ANALYSIS_UNWIND_DISAGREEMENT_H

#include "analysis/facts/cfi_file.h"
#include "analysis/unwind/rows.h"
#include "report/finding.h"

struct flow;

/* The ID of these findings. */
#define CONTRADICTED "ETCH-C001"

/* Up to this number of contradicted functions under one FDE, each has a finding of its own. */
#define DISAGREEMENTS_FEW 3u

/* Adds the finding that at `addr` .eh_frame has the rule `cfi`, but the code has the rule `code`. */
void disagreement_add(struct findings *l, uint64_t addr, const struct etch_rule *code, const struct etch_rule *cfi);

/*
 * Adds the finding that .eh_frame has the rule `cfi` at `addr`, although both of these lead there: a jump at `jump`, in
 * a state other than that of a function's entry, and perhaps calls. `code` is the rule that contradicts .eh_frame: with
 * `called` that of a function's entry, otherwise that of the jump (of kind UNDEF if jumps lead there in several
 * states).
 */
void disagreement_jump(struct findings *l, uint64_t addr, uint64_t jump, const struct etch_rule *code, bool called,
                       const struct etch_rule *cfi);
/* Adds the finding that .eh_frame has the rule `cfi`, that of a function's entry, at `addr`, although the code that
 * begins there takes `bytes` more bytes off the stack than an entry has there. */
void disagreement_overdrawn(struct findings *l, uint64_t addr, int32_t bytes, const struct etch_rule *cfi);

/*
 * If the FDE of f's code range is contradicted for more than DISAGREEMENTS_FEW functions, that is one mistake: replaces
 * the findings about these functions by one finding. `rows`: all rows of the code range; `cfi`: the rows of its FDE.
 */
void disagreements_sum(struct findings *l, const struct flow *f, const struct row_list *rows,
                       const struct etch_cfi_row *cfi, size_t cfi_count);

#endif
