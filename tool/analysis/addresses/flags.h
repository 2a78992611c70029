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

/* Per instruction the flags (ETCH_NEED_*, INSN_FLAGS_REST) that are live after it: f->code->count elements, or more,
 * to be freed. */
uint8_t *func_live_flags(const struct track_func *f);

/* Flags that are live where a jump out of the function leads. */
uint8_t func_live_elsewhere(const struct track_func *f, const struct insn *in);

/*
 * The instructions that read the flags which instruction i sets: readers[] is set per instruction, an array of
 * f->code->count bytes. False: not all of them are known, or one of them may read flags from elsewhere, too. live: of
 * func_live_flags(). (flag_readers.c)
 */
bool func_flag_readers(const struct track_func *f, const uint8_t *live, size_t i, uint8_t *readers);

/* No instruction of the function can make the stack pointer odd. */
bool func_stack_even(const struct func_code *code);

#endif
