/* SPDX-License-Identifier: MIT */
/*
 * A profile: stacks with how often each was seen. Recording fills it (profile_record.c), profile_name() gives the
 * frames names, and the writers of `etch profile`'s formats read it.
 */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include <time.h>

#include "profile/kallsyms.h"
#include "profile/key_set.h"
#include "profile/perf_ring.h"
#include "profile/sample_walk.h"

/*
 * Stacks share their outer frames: a node is a frame with its caller's node. The node's key: a = caller << 32 | binary,
 * b = address. Node 0 is the root; below it are nodes for the process and for the thread, then, if the walk did not
 * reach the end, one that says why, then frames, the kernel's last; with --wall, one that says that the thread did not
 * run. In place of a binary these have one of:
 */
#define STACK_THREAD  (UINT32_MAX - 1) /* b: number of the name; with profile.by_thread, thread ID << 32 | number */
#define STACK_STOP    (UINT32_MAX - 2) /* b: enum stop */
#define STACK_PROCESS (UINT32_MAX - 3) /* b: number of the image */
#define STACK_WAIT    (UINT32_MAX - 5) /* b: enum stack_wait */

/* Nodes of a stack beside the frames of a walk: markers, and the kernel's frames (kernel.perf_event_max_stack). */
#define STACK_EXTRA 4096

enum stack_wait {
	WAIT_EVENT,     /* for something to happen */
	WAIT_PROCESSOR, /* it could run, and another thread did */
	WAIT_COUNT,
};

/* "waiting", "waiting for a processor" */
const char *wait_text(enum stack_wait w);

static inline bool stack_is_marker(uint32_t kind)
{
	return kind == STACK_THREAD || kind == STACK_STOP || kind == STACK_PROCESS || kind == STACK_WAIT;
}

/* What a weight is, and what the writers call it. */
enum profile_unit {
	UNIT_TIME,  /* ns; shown as samples */
	UNIT_WAIT,  /* ns; shown as time */
	UNIT_BYTES, /* `etch heap` */
};

struct profile_sample {
	uint64_t time;   /* ns, CLOCK_MONOTONIC */
	uint64_t weight; /* ns that it represents, or bytes */
	pid_t pid, tid;
	uint32_t node;
};

/* Of a comparison, by call: its share of all, with what it called, before and now; and is the change within the noise?
 */
struct profile_diff {
	double *was, *is; /* 0 to 1 */
	bool *noise;
	double most;        /* the largest change that is not */
	uint64_t *old_self; /* its own share before, in units of the weights */
	/* The same by function, without what it called. */
	double *function_was, *function_is;
	bool *function_noise;
	size_t olds, news;       /* runs */
	double old_sum, new_sum; /* of a run, in its own unit */
};

/* The heap over time. Times are in ns since recording began. */
struct profile_heap {
	struct heap_size {
		uint64_t time, bytes;
	} * sizes;
	size_t size_count, size_capacity;
	uint64_t peak_time, peak_bytes;
	/* Moments of which it is known what was live, and the bytes of each stack at each. */
	struct heap_moment {
		uint64_t time, bytes;
		size_t first; /* in `live`, which is in their order */
	} * moments;
	size_t moment_count, moment_capacity;
	struct heap_live {
		uint32_t moment, node;
		uint64_t bytes;
	} * live;
	size_t live_count, live_capacity;
};

struct profile {
	struct binary_list binaries;
	struct process_list processes;
	struct key_set stacks;
	struct string_set names;
	struct profile_sample *samples;
	size_t sample_count, sample_capacity;
	uint64_t weight;            /* of all samples */
	uint64_t stops[STOP_COUNT]; /* samples by where their walks ended */
	uint64_t lost, throttled;
	uint64_t bare;             /* samples that came without registers, and are left out */
	uint64_t begun;            /* when recording began: CLOCK_MONOTONIC, ns; 0: not known */
	uint64_t duration;         /* of recording, ns; 0: not known */
	time_t started;            /* when recording began; 0: not known */
	const char *measure;       /* "processor time" */
	char rate[72];             /* "1000 samples a second"; "": not known */
	struct profile_diff *diff; /* null: no comparison */
	struct profile_heap *heap; /* of `etch heap`, else null */
	/* The processor time of what was sampled, ns, where it is known. */
	bool timed;
	uint64_t user_time, kernel_time;
	bool python_asked;     /* Python was asked to write maps, which are to be removed */
	uint64_t python_blind; /* samples in Python whose own functions are not known; set by profile_name() */
	unsigned python_minor; /* of its version 3.N, if it is known */
	bool by_name;          /* frames are known by name: their addresses are numbers of names (folded_read.h) */
	bool attached;         /* to a running process */
	struct kallsyms kallsyms;
	bool kernel;          /* the kernel's frames are sampled */
	bool wall;            /* waits and running are shown together */
	bool by_thread;       /* threads of one name are told apart */
	uint64_t kernel_seen; /* weight of the frame [kernel], which stands for what was not sampled */
	size_t images_seen;   /* processes with samples, an exec(2) counting as another; set by profile_name() */
	uint64_t unnamed;     /* samples in code made at run time that has no name */
	bool frame_pointers;  /* as in struct sample */
	uint64_t guessed;     /* samples with frames that were found so */
	uint64_t assumed;     /* samples with a frame in no code, whose caller was assumed */
	uint64_t period;      /* ns */
	unsigned stack;       /* bytes of stack asked for */
	enum profile_unit unit;
	bool no_memory;
	/* What pprof's samples have in place of their number and weight: for each sample a value of each type. Null: that.
	 */
	const struct profile_type *types;
	size_t type_count, type_default;
	uint64_t *values;

	/* Set by profile_name(). */
	struct key_set addresses; /* a: binary, b: address */
	uint32_t *address_of;     /* by stack node; KEY_NONE: a thread's name or a stop */
	struct profile_place *places;
	size_t place_count, place_capacity;
	size_t *place_first; /* by address: its innermost place; the others follow, up to one that is not inlined */
	/* a: name << 32 | name of the binary; b: name in the symbol table << 32 | source file; numbers of `names` */
	struct key_set functions;
	/* As `stacks`, by function: a: caller << 32 | kind; b: function. The kind is a marker's,
	 * BINARY_KERNEL, or 0 of another function. */
	struct key_set calls;
	uint32_t *call_of; /* by stack node: its innermost call */

	struct walk_frame frames[FRAMES_MOST]; /* of the sample that is being walked */
};

struct profile_type {
	const char *name, *unit; /* as pprof's documentation has them: "alloc_space", "bytes" */
};

/* A function that an address belongs to. Inlined functions come before the one that they were inlined into. */
struct profile_place {
	uint32_t function; /* number in `functions` */
	uint32_t file;     /* of the line; number of its name; 0: not known */
	uint32_t line;     /* 0: not known */
	bool inlined;      /* into the place after it */
};

static inline uint32_t key_caller(const struct key *k) { return (uint32_t)(k->a >> 32); }
static inline uint32_t key_kind(const struct key *k) { return (uint32_t)k->a; }

/* A zeroed profile; null: out of memory. Its `names` has the empty name as number 0. */
struct profile *profile_new(void);
void profile_free(struct profile *p);

/* Handles a record of the kernel: a perf_record_fn. */
void profile_take(void *profile, const struct perf_event_header *h);
/* No record follows. `now`: CLOCK_MONOTONIC, ns. */
void profile_end(struct profile *p, uint64_t now);

/* Time in the kernel that was not sampled: it becomes one frame below the process `pid`. */
void profile_kernel_time(struct profile *p, uint64_t ns, pid_t pid, uint64_t now);

/* Processor time that neither samples nor the frame [kernel] stand for, ns: 0 if it is within what sampling gives
 * anyway. */
uint64_t profile_unseen(const struct profile *p);

/* Gives the frames names. `lines`: with source files and lines, for the formats that have them. False: out of memory.
 */
bool profile_name(struct profile *p, bool lines);

#endif
