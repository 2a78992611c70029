/* SPDX-License-Identifier: MIT */
/*
 * against_gcc.h: ETCH_EXCEPTIONS=check compares what this library has found out with libgcc (against_gcc.c).
 */
#ifndef ETCH_LIB_EXCEPTIONS_AGAINST_GCC_H
#define ETCH_LIB_EXCEPTIONS_AGAINST_GCC_H

#include <stdbool.h>

#include "exceptions/gcc_abi.h"
#include "exceptions/records.h"

/* What is to be done in a frame. False: the walk ends there. */
typedef bool checked_fn(void *arg, const struct record *r);

/* Walks from a frame on as far as there are records, and as far as fn says, beside libgcc's walk of the same stack; fn
 * is called for a frame after both have found the same there. *frame is at last where the walk has ended. False: they
 * differ, and a line says so. */
bool check_frames(struct frame *frame, struct records_view *view, checked_fn *fn, void *arg);

/* Compares what a record says of the call with what its personality routine has answered, in the first phase and in the
 * second; not_for_types: its handlers are known not to match. False: they differ, and a line says so. */
bool check_search(const struct record *r, int reason, bool not_for_types);
bool check_cleanup(const struct record *r, int reason, const struct gcc_context *c, bool not_for_types);

#endif
