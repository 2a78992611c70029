/* SPDX-License-Identifier: MIT */
/*
 * Limits the memory and CPU time that processing a file may take, in proportion to its size and whatever its contents
 * (docs/security.md, "Bounds"). The tool's algorithms stay far below these limits, which end the process if a crafted
 * file makes one of the algorithms exceed them.
 *
 * A request for memory beyond the bound fails: "out of memory". A process that exceeds its time prints one line and
 * exits with status 2, or, as a worker (bounds_worker), exits silently with BOUNDS_STATUS.
 *
 * After bounds_memory_ends(), a failed allocation ends the process in the same way: libraries
 * that read DWARF or write JSON would continue with incomplete data, or abort, and the output
 * would be silently incomplete.
 *
 * The environment variable ETCH_BOUNDS holds a factor for both limits, or two factors for time and for memory separated
 * by a comma, or "none".
 */
#ifndef SUPPORT_BOUNDS_H
#define SUPPORT_BOUNDS_H

#include <stdint.h>

/* Built with AddressSanitizer: gcc and clang define different macros. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BOUNDS_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define BOUNDS_SANITIZED 1
#endif

#define BOUNDS_MEMORY        ((uint64_t)256 << 20) /* bytes that any file may take, */
#define BOUNDS_MEMORY_A_BYTE 64u                   /* plus this many per byte of the file */
#define BOUNDS_SECONDS       10u                   /* seconds of CPU time that any file may take, */
#define BOUNDS_SECONDS_A_MB  20u                   /* plus this many per 10^6 bytes */
#define BOUNDS_STATUS        4                     /* exit status of a worker that took too long, */
#define BOUNDS_STATUS_MEMORY 5                     /* or that ran out of memory */

/* Declares this process a worker, whose parent reports the outcome. */
void bounds_worker(void);
/* Starts the accounting for the next input. */
void bounds_begin(void);
/* Counts `size` bytes of the file `path` that are read for the current input; the bounds follow from the total. */
void bounds_add(const char *path, uint64_t size);
/* From this call on a failed allocation ends the process, in libraries too. */
void bounds_memory_ends(void);
/* no_memory.c calls this when an allocation of `size` bytes has failed. */
void bounds_refused(uint64_t size);
/* Undoes half-done work (ending.h) and ends the process with "out of memory" and status 2, or, in a worker, silently
 * with BOUNDS_STATUS_MEMORY. Async-signal-safe. */
_Noreturn void bounds_exhausted(void);
/* Call this when the work is done: it stops the clock, and failed allocations are reported to their callers again.
 * Writing the output is not limited in time. */
void bounds_end(void);

#endif
