/* SPDX-License-Identifier: MIT */
/*
 * recording.h: the mapped file of this process image (shared/heap_file.h), and the recorder's memory (recording.c).
 * It makes system calls only, because the caller is malloc(3).
 */
#ifndef ETCH_LIB_HEAP_RECORDING_H
#define ETCH_LIB_HEAP_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/heap_file.h"

#define HEAP_PATH_MOST 4096

/* An array in the file: `mapped` bytes of `most` are mapped, and the first `ready` of them can be written without a
 * fault. It moves when it grows. */
struct region {
	uint8_t *at;
	uint64_t ready, mapped, most, offset;
};

/* The recording of this process image. */
struct recording {
	struct heap_head *head; /* null: this process is not recorded. It does not move. */
	struct region nodes, leaves, modules;
	uint64_t sample;
	char path[HEAP_PATH_MOST];
};

extern struct recording recording;

/* In the child of a fork: stops using the parent's file, and returns the head of that file for recording_open(). */
struct heap_head *recording_leave(void);
/* Opens a file for this process. parent: null, or what recording_leave() has returned. Returns false if the process
 * is not to be recorded, or cannot be. */
bool recording_open(struct heap_head *parent);
/* Unmaps the arrays, which stay in the file; the head can still be written. */
void recording_shrink(void);
/* The bytes of address space that recording_shrink() would give back. */
uint64_t recording_mapped(void);
/* Makes the first `size` bytes of a region writable. If it returns false, head->short_of says what is full. */
bool region_grow(struct region *r, uint64_t size);

static inline bool region_has(struct region *r, uint64_t size) { return size <= r->ready || region_grow(r, size); }

/* Zeroed memory for the recorder, counted in the head; null if there is none, or the limits leave little. */
void *recorder_map(uint64_t size);
void recorder_unmap(void *at, uint64_t size);

#endif
