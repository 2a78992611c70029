/* SPDX-License-Identifier: MIT */
/*
 * The heap over time: while the command runs, etch reads from the recordings how much memory is live, and at longer
 * intervals which blocks. The program does nothing for this. The blocks that are read at a moment were live within the
 * milliseconds that reading took.
 */
#ifndef HEAP_HEAP_TIME_H
#define HEAP_HEAP_TIME_H

#include "heap/heap_profile.h"

/* The bytes of one leaf of a recording that were live at a moment. */
struct heap_view {
	uint32_t moment, leaf;
	uint64_t bytes;
};

/* The state of one recording. A zeroed structure has read nothing yet. */
struct heap_track {
	struct heap_view *views;
	size_t count, capacity;
	uint64_t live, peak; /* bytes, when they were last read */
	uint64_t peak_time;  /* the time when `peak` was first read */
};

struct heap_time {
	struct profile_heap *out;
	uint64_t begun; /* CLOCK_MONOTONIC, ns */
	uint64_t size_every,
		size_at; /* ns: the time between two sizes, and when the next one is due, counted from `begun` */
	uint64_t view_every, view_at;
	uint32_t every;      /* moments whose number is not a multiple of this have been dropped */
	size_t views;        /* number of views that have been read, of all moments */
	uint64_t view_begun; /* etch's processor time when the last moment began */
};

bool heap_time_begin(struct heap_time *t);
/* Returns the nanoseconds since heap_time_begin(). */
uint64_t heap_time_now(const struct heap_time *t);
/* Reads how much is live from the head of a recording. */
void heap_track_read(struct heap_track *k, int directory, const char *name, uint64_t now);
/* Returns the number of a new moment if it is time to read which blocks are live in each recording, otherwise
 * UINT32_MAX. */
uint32_t heap_time_moment(struct heap_time *t, uint64_t now);
/* Reads which blocks of a recording are live at this moment. */
void heap_track_view(struct heap_time *t, struct heap_track *k, int directory, const char *name, uint32_t moment);
/* Has so much been read that every second moment must be dropped? If so, call heap_track_thin() for each recording. */
bool heap_time_thin(struct heap_time *t);
void heap_track_thin(struct heap_time *t, struct heap_track *k);
/* Call this when the heads of all recordings have been read: `bytes` bytes are live in all. */
void heap_time_add(struct heap_time *t, uint64_t now, uint64_t bytes);
/* Call this when the live blocks of all recordings have been read too. */
void heap_moment_end(struct heap_time *t, uint32_t moment, uint64_t now, uint64_t bytes);
/* Call this when a recording has been added to the profile: node[] holds the stacks of its leaves. */
void heap_track_take(struct heap_time *t, struct heap_track *k, const uint32_t *node, size_t leaves);
/* Call this when the command has ended. `only` is its track if it was a single process, whose peak is then known
 * exactly. */
bool heap_time_end(struct heap_time *t, const struct heap_profile *h, const struct heap_track *only);
void heap_track_free(struct heap_track *k);

#endif
