/* SPDX-License-Identifier: MIT */
/*
 * A flag is live where some path reads it (by a branch, setcc, cmov or adc) before the path sets it again. A backward
 * dataflow analysis over one function finds the live flags.
 *
 * Calls and returns end the life of all flags: neither a function's arguments nor its result are in them (psABI 3.2.1).
 */
#ifndef ANALYSIS_ADDRESSES_FLAGS_H
#define ANALYSIS_ADDRESSES_FLAGS_H

#include "analysis/addresses/track.h"

/* Returns the flags (ETCH_NEED_*, INSN_FLAGS_REST) that are live after each instruction: an array of at least
 * f->code->count elements, which the caller frees. */
uint8_t *func_live_flags(const struct track_func *f);

/* Returns the flags that are live where a jump out of the function leads. */
uint8_t func_live_elsewhere(const struct track_func *f, const struct insn *in);

/*
 * Finds the instructions that read the flags which instruction i sets: sets readers[k] for each such instruction k, in
 * an array of f->code->count bytes. Returns false if not all of them are known, or if one of them may also read flags
 * that another instruction has set. `live` is the result of func_live_flags().
 */
bool func_flag_readers(const struct track_func *f, const uint8_t *live, size_t i, uint8_t *readers);

/* Returns true if no instruction of the function can make the stack pointer odd. */
bool func_stack_even(const struct func_code *code);

#endif
