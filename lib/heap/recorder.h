/* SPDX-License-Identifier: MIT */
/*
 * recorder.h: the functions with which the allocation functions report to the recorder (recorder.c).
 *
 * They are thread-safe; calls in a signal handler that has interrupted the recorder itself are counted as lost.
 * `frame` is __builtin_frame_address(0) of the function that the program has called. errno is kept.
 */
#ifndef ETCH_LIB_HEAP_RECORDER_H
#define ETCH_LIB_HEAP_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/live_blocks.h"
#include "shared/heap_file.h"

/* A block that is about to be freed or moved. */
struct recorder_block {
	struct live_block live;
	bool known; /* it was recorded */
};

/* Opens the recording. own_malloc: the program's calls of malloc do not reach this library. */
void recorder_start(bool own_malloc);
/* Reports that a block has been allocated; if it is null, the allocation failed, and nothing is recorded. */
void recorder_alloc(void *block, size_t size, const uint64_t *frame);
/* Reports that a block will be freed. */
void recorder_free(void *block);
/* realloc(3) in two steps. The first takes the block out of the table before another thread can get its address. */
void recorder_realloc_begin(void *block, struct recorder_block *was);
/* The second step records the result. `block` is the new block; null with size 0: the old block was freed; null with
 * another size: the call failed, and the old block is unchanged. */
void recorder_realloc_end(void *old, const struct recorder_block *was, void *block, size_t size, const uint64_t *frame);
/* Reports that a library may have been unloaded. */
void recorder_unloaded(void);
/*
 * Called when an allocation of `size` bytes has failed. Returns true if the recorder has given its memory back, with
 * which a second try may succeed; from then on nothing is recorded. Returns false if the recorder has no part in the
 * failure.
 */
bool recorder_release(uint64_t size);
/* Does what recorder_release() does, for a call that may have failed for a reason other than memory: it gives the
 * memory back and returns true only if a limit of the process leaves too little. */
bool recorder_release_limited(uint64_t size);
/* Stops recording for good, because of something that the program is about to do. */
void recorder_end(enum heap_ended why);
/* Runs fn on the head of the recording, if there is one, under the lock. */
void recorder_note(void (*fn)(struct heap_head *, void *), void *arg);

/* ---- code whose calls of malloc(3) bypass the recorder (unseen.c) -------------------------- */

/* Examines what calls of dlopen(3) and dlmopen(3) have loaded so far. To be called only where the dynamic linker may
 * be called. */
void unseen_look(void);
/* Called before a library is loaded with RTLD_DEEPBIND, or into a new namespace. */
void unseen_call(bool deep);

#endif
