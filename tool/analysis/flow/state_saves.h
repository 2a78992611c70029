/* SPDX-License-Identifier: MIT */
/* Where a state proves the caller's values of the callee-saved registers to be. */
#ifndef ANALYSIS_FLOW_STATE_SAVES_H
#define ANALYSIS_FLOW_STATE_SAVES_H

#include "analysis/facts/cfi_file.h"
#include "analysis/flow/state.h"

/*
 * Of rbx and r12 to r15 (rbp is part of the rule): unchanged, in a slot, or ETCH_SAVE_OTHER where nothing is proven. A
 * slot is preferred to the register as long as nothing can have written to it, as compilers do: so a row holds
 * longer. Returns the offset from the CFA of such a slot of rbp; 0: there is none. *depends: mask of the registers that
 * all this depends on, as long as rsp and the slots stay as they are.
 */
int32_t state_saves(const struct state *s, struct etch_cfi_saves *out, unsigned *depends);
/* Do two states certainly have the same, if those of one depend on these registers? */
bool saves_hold(const struct state *a, const struct state *b, unsigned registers);

#endif
