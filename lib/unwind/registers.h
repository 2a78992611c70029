/* SPDX-License-Identifier: MIT */
/*
 * registers.h: finds the places of callee-saved registers in the register tables of modules (registers.c).
 */
#ifndef ETCH_LIB_UNWIND_REGISTERS_H
#define ETCH_LIB_UNWIND_REGISTERS_H

#include <stdbool.h>

#include "shared/cfi.h"
#include "unwind/unwind_internal.h"

/* Find the row for a run-time address of this module, or of a target's. Return false if it has no register table, or
 * no rule of kind CALL there. Async-signal-safe. */
bool registers_row(const struct prepare_image *im, uint64_t at, struct etch_cfi_row *out);
bool registers_target_row(const struct etch_target *target, uint64_t at, struct etch_cfi_row *out);

#endif
