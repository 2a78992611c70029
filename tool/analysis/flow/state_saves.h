/* SPDX-License-Identifier: MIT */
/* Finds where a state proves the caller's values of the callee-saved registers to be. */
#ifndef ANALYSIS_FLOW_STATE_SAVES_H
#define ANALYSIS_FLOW_STATE_SAVES_H

#include "analysis/facts/cfi_file.h"
#include "analysis/flow/state.h"

/*
 * Finds where the caller's rbx and r12 to r15 are (rbp is part of the rule): unchanged in the register, in a slot, or
 * ETCH_SAVE_OTHER where nothing is proven. As in compilers' tables, a slot is preferred to the register as long as
 * nothing can have written to it, so that a row holds longer. Returns the offset from the CFA of such a slot of rbp, or
 * 0 if there is none. *depends becomes the mask of the registers on which all this depends, as long as rsp and the
 * slots stay as they are.
 */
int32_t state_saves(const struct state *s, struct etch_cfi_saves *out, unsigned *depends);
/* Are the saved registers certainly in the same places in two states, if those of one depend on these registers? */
bool saves_hold(const struct state *a, const struct state *b, unsigned registers);

#endif
