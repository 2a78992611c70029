/* SPDX-License-Identifier: MIT */
/*
 * registered_frames.h: the .eh_frame of code that belongs to no module, which a JIT has registered
 * (registered_frames.c).
 */
#ifndef ETCH_LIB_UNWIND_REGISTERED_FRAMES_H
#define ETCH_LIB_UNWIND_REGISTERED_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

struct etch_cfi;
struct etch_fde;

/*
 * Adds the FDEs of an .eh_frame that ends with a zero length, as __register_frame() gets it. The section and its code
 * must remain until registered_remove(). If memory is short, some FDEs are left out. Thread-safe; not for signal
 * handlers.
 */
void registered_add(const void *section);
void registered_remove(const void *section);

/* Finds the registered FDE that covers an address on this thread's stack; run-time addresses. False if there is none.
 * Async-signal-safe. */
bool registered_fde(uint64_t at, struct etch_cfi *cfi, struct etch_fde *fde);

#endif
