/* SPDX-License-Identifier: MIT */
/* What a function keeps in its stack frame: registers that it spills, or variables of the program. */
#ifndef ANALYSIS_ADDRESSES_FRAME_SLOTS_H
#define ANALYSIS_ADDRESSES_FRAME_SLOTS_H

#include "analysis/addresses/track.h"

/*
 * Does instruction i store a register to a word of the frame that the function itself never reads through the stack
 * pointer? Then it is not a spill, which would be loaded again, but a variable that something points to, or an
 * argument. Returns false where this is not known.
 */
bool frame_slot_is_variable(const struct track_func *f, size_t i);

/*
 * Is instruction i a push of a register whose word is overwritten, at least half of it, before anything can read it?
 * Compilers push any register to make space for a variable of up to 8 bytes (clang 19: push %rax), whatever it holds.
 * Half an address is no address.
 */
bool frame_push_is_overwritten(const struct track_func *f, size_t i);

#endif
