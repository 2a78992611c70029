/* SPDX-License-Identifier: MIT */
/*
 * Live flags: those that some path reads (by a branch, setcc, cmov, adc) before it sets them again. A backward dataflow
 * analysis over one function.
 *
 * Calls and returns end flags: neither a function's arguments nor its result are in them (psABI 3.2.1).
 */
#ifndef ANALYSIS_ADDRESSES_FLAGS_H
#define ANALYSIS_ADDRESSES_FLAGS_H

#include "analysis/addresses/track.h"

/* Per instruction the flags (ETCH_NEED_*, INSN_FLAGS_REST) that are live behind it: f->code->count elements, or more,
 * to be freed. */
uint8_t *func_live_flags(const struct track_func *f);

/* No instruction of the function can make the stack pointer odd. */
bool func_stack_even(const struct func_code *code);

#endif
