/* SPDX-License-Identifier: MIT */
/*
 * Reads the kernel's samples: perf_event_open(2) with one ring buffer for each processor, and events for each processor
 * that threads and children inherit. Records of all buffers are read in order of time. linux/perf_event.h has the
 * layout of records.
 */
#ifndef PROFILE_PERF_RING_H
#define PROFILE_PERF_RING_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "support/error.h"

/* The fields of every sample. Every other record ends with PERF_SAMPLE_TID and PERF_SAMPLE_TIME. The period
 * distinguishes the events of `on_cpu` and `off_cpu`: that of the latter is 1. */
#define PERF_FIELDS                                                                                     \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD | PERF_SAMPLE_REGS_USER | \
	 PERF_SAMPLE_STACK_USER)
#define PERF_STACK_MOST 65000u /* a record's size has 16 bits */

/* With neither `on_cpu` nor `off_cpu` there are no samples, only records of the programs that processes execute. */
struct perf_options {
	unsigned hz;    /* samples a second and processor */
	unsigned stack; /* bytes of stack that are copied with a sample, a multiple of 8; 0: as many as the buffers allow */
	bool on_cpu;    /* sample while threads run */
	bool off_cpu;   /* sample when threads stop running */
	bool kernel;    /* record the kernel's frames if the system allows it; off_cpu needs the same rights */
	bool children;  /* follow threads and children that begin later */
	bool whole_process; /* `pid` of perf_open() is a running process, all of whose threads are sampled from now on;
	                       otherwise it is one that waits for its exec(2), and is sampled from then on */
};

struct perf_ring {
	struct perf_event_mmap_page *page; /* the head page of the ring, which the data follow */
	uint64_t size;                     /* bytes of the data, a power of two */
	uint64_t head, tail;               /* records in [tail, head) are to be read */
	uint64_t time;                     /* time of the record at tail, if `timed` */
	bool timed;
	int fd; /* the event to which the ring belongs; -1: the processor is off, and has neither event nor ring */
};

struct perf_session {
	struct perf_ring *rings;
	size_t count;
	int *fds;
	size_t fd_count, fd_capacity;
	char *wrapped;                  /* a record that wraps around the end of its ring is copied here */
	struct perf_event_attr attr[2]; /* attributes of the events that are opened for each thread */
	size_t attr_count;
	unsigned stack; /* bytes of stack that a sample copies */
	bool kernel;    /* samples have PERF_SAMPLE_CALLCHAIN, which has only the kernel's frames */
};

/* Takes a record, whose size is h->size. */
typedef void perf_record_fn(void *ctx, const struct perf_event_header *h);

/* Opens the events. Returns 0, or -1 and a message that says what is missing. Call perf_close() even after a
 * failure. */
int perf_open(struct perf_session *s, pid_t pid, const struct perf_options *o, struct error *e);
/* Reads the available records: all of them with `last`, otherwise those that are so old that no earlier one can still
 * arrive. */
void perf_read(struct perf_session *s, bool last, perf_record_fn *fn, void *ctx);
/* Stops sampling. */
void perf_stop(struct perf_session *s);
void perf_close(struct perf_session *s);

#endif
