/* SPDX-License-Identifier: MIT */
/*
 * The heap over time: while the command runs, etch reads from the recordings how much is live, and now and then what.
 * The program does nothing for it. What is read at a moment is what was live within the milliseconds that reading took.
 */
#ifndef HEAP_HEAP_TIME_H
#define HEAP_HEAP_TIME_H

#include "heap/heap_profile.h"

/* What was live of one recording, by leaf. */
struct heap_view {
	uint32_t moment, leaf;
	uint64_t bytes;
};

/* One recording. Zeroed: nothing has been read. */
struct heap_track {
	struct heap_view *views;
	size_t count, capacity;
	uint64_t live, peak; /* bytes, as read last */
	uint64_t peak_time;  /* when `peak` was first read */
};

struct heap_time {
	struct profile_heap *out;
	uint64_t begun;               /* CLOCK_MONOTONIC, ns */
	uint64_t size_every, size_at; /* ns: between two sizes; when the next is due, since `begun` */
	uint64_t view_every, view_at;
	uint32_t every;      /* moments whose number is no multiple of it have been dropped */
	size_t views;        /* what has been read of all moments */
	uint64_t view_begun; /* etch's processor time when the last moment began */
};

bool heap_time_begin(struct heap_time *t);
/* Nanoseconds since the beginning. */
uint64_t heap_time_now(const struct heap_time *t);
/* Reads the head of a recording. */
void heap_track_read(struct heap_track *k, int directory, const char *name, uint64_t now);
/* Is it time to read what is live of each recording, too? Then the number of the moment, else UINT32_MAX. */
uint32_t heap_time_moment(struct heap_time *t, uint64_t now);
/* Reads what is live of a recording at this moment. */
void heap_track_view(struct heap_time *t, struct heap_track *k, int directory, const char *name, uint32_t moment);
/* Has so much been read that every second moment is to be dropped? Then of each recording by heap_track_thin(). */
bool heap_time_thin(struct heap_time *t);
void heap_track_thin(struct heap_time *t, struct heap_track *k);
/* The heads of all recordings have been read, with so many bytes live in all. */
void heap_time_add(struct heap_time *t, uint64_t now, uint64_t bytes);
/* ... and what is live of them. */
void heap_moment_end(struct heap_time *t, uint32_t moment, uint64_t now, uint64_t bytes);
/* A recording has been added to the profile: node[] are the stacks of its leaves. False: out of memory. */
bool heap_track_take(struct heap_time *t, struct heap_track *k, const uint32_t *node, size_t leaves);
/* The command has ended. `only`: its track if it was one process, whose peak is then known exactly. */
bool heap_time_end(struct heap_time *t, const struct heap_profile *h, const struct heap_track *only);
void heap_track_free(struct heap_track *k);

#endif
