/* SPDX-License-Identifier: MIT */
/*
 * What a file may cost: memory and CPU time in proportion to its size, however it is made
 * (docs/security.md, "Bounds"). The tool's algorithms keep far inside; this is what ends
 * them where a file has been made so that one does not.
 *
 * Memory that a file asks for beyond its bound is refused as if there were none: "out of
 * memory". A process whose time is over says so in one line and exits with status 2, or, as a
 * worker (bounds_worker), with BOUNDS_STATUS and in silence.
 *
 * So does one that gets no memory, after bounds_memory_ends(): libraries that read DWARF or write
 * JSON go on with less then, or abort, and so would an answer be less than it should, in silence.
 *
 * ETCH_BOUNDS in the environment is a factor for both, or one for time and one for memory with a
 * comma between them; or "none".
 */
#ifndef ELF_BOUNDS_H
#define ELF_BOUNDS_H

#include <stdint.h>

/* Built with AddressSanitizer, which gcc says in one way and clang in the other. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BOUNDS_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define BOUNDS_SANITIZED 1
#endif

#define BOUNDS_MEMORY        ((uint64_t)256 << 20) /* bytes for any file, */
#define BOUNDS_MEMORY_A_BYTE 64u                   /* ... and for each of its own */
#define BOUNDS_SECONDS       10u                   /* of CPU time for any file, */
#define BOUNDS_SECONDS_A_MB  20u                   /* ... and for each 10^6 bytes */
#define BOUNDS_STATUS        4                     /* of a worker that took too long, */
#define BOUNDS_STATUS_MEMORY 5                     /* ... that got no memory */

/* This process is a worker: its parent says what became of it. */
void bounds_worker(void);
/* What comes now is about another input. */
void bounds_begin(void);
/* `size` bytes have been read for it, of the file `path`: with what was read for it before, they
 * say how much it may cost. */
void bounds_add(const char *path, uint64_t size);
/* From now on an allocation that fails ends the process: nothing has been changed yet that would
 * have to be put right. */
void bounds_memory_ends(void);
/* An allocation of so many bytes has failed (no_memory.c). */
void bounds_refused(uint64_t size);
/* The work is done: the clock stops, and what fails is told to who asked. Output takes the time that it takes. */
void bounds_end(void);

#endif
