/* SPDX-License-Identifier: MIT */
/*
 * Which of the flags that an instruction leaves are asked for afterwards: by branches, setcc, cmov, adc, on any path,
 * up to the instruction that sets them again. A backward dataflow analysis over one function.
 *
 * Calls and returns end flags: neither a function's arguments nor its result are in them (psABI 3.2.1).
 */
#ifndef ANALYSIS_ADDRESSES_FLAGS_H
#define ANALYSIS_ADDRESSES_FLAGS_H

#include "analysis/addresses/track.h"

/*
 * Returns per instruction the flags (ETCH_NEED_*, INSN_FLAGS_REST) that are asked for behind it: an array of
 * f->code->count, to be freed; null when out of memory.
 */
uint8_t *func_flags_asked(const struct track_func *f);

/* No instruction of the function can make the stack pointer odd. */
bool func_stack_even(const struct func_code *code);

#endif
