/* SPDX-License-Identifier: MIT */
/*
 * The kernel's samples: perf_event_open(2) with one event and one ring buffer per processor, inherited by threads and
 * children. Records of all buffers are read in order of time. Layout of records: linux/perf_event.h.
 */
#ifndef PROFILE_PERF_RING_H
#define PROFILE_PERF_RING_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "support/error.h"

/* Of every sample, and the trailer of every other record: PERF_SAMPLE_TID, then PERF_SAMPLE_TIME. The period tells the
 * two events of `on_cpu` and `off_cpu` apart: that of the latter is 1. */
#define PERF_FIELDS                                                                                     \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD | PERF_SAMPLE_REGS_USER | \
	 PERF_SAMPLE_STACK_USER)
#define PERF_STACK_MOST 65000u /* a record's size has 16 bits */

/* Neither `on_cpu` nor `off_cpu`: no samples, only what processes execute. */
struct perf_options {
	unsigned hz;        /* samples a second and processor */
	unsigned stack;     /* bytes of stack copied with a sample, a multiple of 8; 0: as the buffers allow */
	bool on_cpu;        /* sample while threads run */
	bool off_cpu;       /* sample where threads stop running */
	bool kernel;        /* with the kernel's frames, where the system allows them; off_cpu needs the same rights */
	bool children;      /* follow threads and children that begin later */
	bool whole_process; /* `pid` of perf_open() is a running process: all its threads, from now on; else one that waits
	                     * for its exec(2), from then on */
};

struct perf_ring {
	struct perf_event_mmap_page *page; /* then the data */
	uint64_t size;                     /* of the data: a power of two */
	uint64_t head, tail;               /* records in [tail, head) are to be read */
	uint64_t time;                     /* of the record at tail, once `timed` */
	bool timed;
	int fd; /* the event that it belongs to; -1: the processor is off, and has none */
};

struct perf_session {
	struct perf_ring *rings;
	size_t count;
	int *fds;
	size_t fd_count, fd_capacity;
	char *wrapped;                  /* a record that goes around the end of its ring is copied here */
	struct perf_event_attr attr[2]; /* of the events that are opened for each thread */
	size_t attr_count;
	unsigned stack; /* bytes of stack that a sample copies */
	bool kernel;    /* samples have PERF_SAMPLE_CALLCHAIN, of the kernel only */
};

/* A record; its size is h->size. */
typedef void perf_record_fn(void *ctx, const struct perf_event_header *h);

/* Opens the events. 0, or -1 and a message that says what is missing; perf_close() also after a failure. */
int perf_open(struct perf_session *s, pid_t pid, const struct perf_options *o, struct error *e);
/* Reads the records that are there: all (`last`), or those old enough that no earlier one can still arrive. */
void perf_read(struct perf_session *s, bool last, perf_record_fn *fn, void *ctx);
/* Stops sampling. */
void perf_stop(struct perf_session *s);
void perf_close(struct perf_session *s);

#endif
