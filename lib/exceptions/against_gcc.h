/* SPDX-License-Identifier: MIT */
/*
 * against_gcc.h: ETCH_EXCEPTIONS=check compares what this library has found out with libgcc (against_gcc.c).
 */
#ifndef ETCH_LIB_EXCEPTIONS_AGAINST_GCC_H
#define ETCH_LIB_EXCEPTIONS_AGAINST_GCC_H

#include <stdbool.h>

#include "exceptions/gcc_abi.h"
#include "exceptions/records.h"

/* A function that check_frames() calls for a frame, with its record. Returns false to end the walk there. */
typedef bool checked_fn(void *arg, const struct record *r);

/* Walks from *frame as far as there are records and fn allows it, together with libgcc's walk of the same stack. Calls
 * fn for a frame after both walks have found the same there. At the end *frame is the frame where the walk ended.
 * Returns false if the two walks differ, after it has written a line that says so. */
bool check_frames(struct frame *frame, struct records_view *view, checked_fn *fn, void *arg);

/* Compare what a record says about the call with what its personality routine has answered: check_search() in the first
 * phase, the other one in the second. not_for_types: the handlers of the call are known not to match. Return false if
 * record and answer differ, after they have written a line that says so. */
bool check_search(const struct record *r, int reason, bool not_for_types);
bool check_cleanup(const struct record *r, int reason, const struct gcc_context *c, bool not_for_types);

#endif
