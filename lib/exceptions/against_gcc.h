/* SPDX-License-Identifier: MIT */
/*
 * against_gcc.h: ETCH_EXCEPTIONS=check compares what this library has found out with libgcc (against_gcc.c).
 */
#ifndef ETCH_LIB_EXCEPTIONS_AGAINST_GCC_H
#define ETCH_LIB_EXCEPTIONS_AGAINST_GCC_H

#include <stdbool.h>

#include "exceptions/gcc_abi.h"
#include "exceptions/records.h"

/* The action to take in a frame. Returns false if the walk ends there. */
typedef bool checked_fn(void *arg, const struct record *r);

/* Walks from a frame as far as there are records and fn allows it, beside libgcc's walk of the same stack; calls fn
 * for a frame after both walks have found the same there. At the end *frame is the frame where the walk ended.
 * Returns false if they differ, and then a line says so. */
bool check_frames(struct frame *frame, struct records_view *view, checked_fn *fn, void *arg);

/* Compare what a record says about the call with what its personality routine has answered, in the first and in the
 * second phase. not_for_types: its handlers are known not to match. Return false if they differ, and then a line says
 * so. */
bool check_search(const struct record *r, int reason, bool not_for_types);
bool check_cleanup(const struct record *r, int reason, const struct gcc_context *c, bool not_for_types);

#endif
