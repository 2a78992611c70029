/* SPDX-License-Identifier: MIT */
/*
 * A flag is live at a point if some path from there reads it (in a branch, setcc, cmov or adc) before the path sets it
 * again. A backward dataflow analysis over one function finds the live flags.
 *
 * Calls and returns end the life of all flags: neither arguments nor results of functions are passed in flags (psABI
 * 3.2.1).
 */
#ifndef ANALYSIS_ADDRESSES_FLAGS_H
#define ANALYSIS_ADDRESSES_FLAGS_H

#include "analysis/addresses/track.h"

/* Returns for each instruction the flags that are live after it (ETCH_NEED_*, INSN_FLAGS_REST). The array has at least
 * f->code->count elements; the caller frees it. */
uint8_t *func_live_flags(const struct track_func *f);

/* Returns the flags that are live at the target of a jump out of the function. */
uint8_t func_live_elsewhere(const struct track_func *f, const struct insn *in);

/*
 * Finds the instructions that read the flags which instruction i sets. Sets readers[k] to 1 for each instruction k that
 * does and to 0 for all others; the array has f->code->count bytes. Returns false if not all readers are known, or if
 * one of them may also read flags that another instruction has set. `live` is the result of func_live_flags().
 */
bool func_flag_readers(const struct track_func *f, const uint8_t *live, size_t i, uint8_t *readers);

/* Does no instruction of the function make the stack pointer odd? */
bool func_stack_even(const struct func_code *code);

#endif
