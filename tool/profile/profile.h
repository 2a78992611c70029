/* SPDX-License-Identifier: MIT */
/*
 * A profile holds stacks, and how often each was seen. Recording fills it (profile_record.c), profile_name() names the
 * frames, and the writers of the formats of `etch profile` read it.
 */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include <time.h>

#include "profile/kallsyms.h"
#include "profile/key_set.h"
#include "profile/perf_ring.h"
#include "profile/sample_walk.h"

/*
 * Stacks share their outer frames: a node is a frame with its caller's node. The node's key has a = caller << 32 |
 * binary and b = address. Node 0 is the root. Below it are nodes for the process and for the thread, then, if the walk
 * did not reach the end, a node that says why, then the frames, of which the kernel's are last, and with --wall a node
 * that says that the thread did not run. The nodes that are no frames have one of these in place of a binary:
 */
#define STACK_THREAD  (UINT32_MAX - 1) /* b: number of the name; with profile.by_thread, thread ID << 32 | number */
#define STACK_STOP    (UINT32_MAX - 2) /* b: enum stop */
#define STACK_PROCESS (UINT32_MAX - 3) /* b: number of the image */
#define STACK_WAIT    (UINT32_MAX - 5) /* b: enum stack_wait */

/* The greatest number of nodes of a stack besides the frames of a walk: markers, and the kernel's frames
 * (kernel.perf_event_max_stack). */
#define STACK_EXTRA 4096

/* Why a thread did not run. */
enum stack_wait {
	WAIT_EVENT,     /* it waits for something to happen */
	WAIT_PROCESSOR, /* it could run, but another thread ran */
	WAIT_COUNT,
};

/* Returns "waiting" or "waiting for a processor". */
const char *wait_text(enum stack_wait w);

static inline bool stack_is_marker(uint32_t kind)
{
	return kind == STACK_THREAD || kind == STACK_STOP || kind == STACK_PROCESS || kind == STACK_WAIT;
}

/* What a weight is, and how the writers show it. */
enum profile_unit {
	UNIT_TIME,  /* ns; shown as samples */
	UNIT_WAIT,  /* ns; shown as time */
	UNIT_BYTES, /* `etch heap` */
};

struct profile_sample {
	uint64_t time;   /* ns, CLOCK_MONOTONIC */
	uint64_t weight; /* ns that the sample represents, or bytes */
	pid_t pid, tid;
	uint32_t node;
};

/* A comparison, indexed by call: the share of a call with everything that it called, before and now, and whether the
 * change is within the noise.
 */
struct profile_diff {
	double *was, *is; /* 0 to 1 */
	bool *noise;
	double most;        /* the largest change that exceeds the noise */
	uint64_t *old_self; /* the call's own share before, in units of the weights */
	/* The share of a function without the functions that it called, before and now, indexed by function. */
	double *function_was, *function_is;
	bool *function_noise;
	size_t olds, news;       /* runs */
	double old_sum, new_sum; /* mean weight of an old and of a new run, in the unit of their numbers */
};

/* The heap over time. Times are in ns since recording began. */
struct profile_heap {
	struct heap_size {
		uint64_t time, bytes;
	} * sizes;
	size_t size_count, size_capacity;
	uint64_t peak_time, peak_bytes;
	/* The moments for which it is known what was live, and the live bytes of each stack at each of them. */
	struct heap_moment {
		uint64_t time, bytes;
		size_t first; /* index of its first element in `live`, which is in the order of the moments */
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
	uint64_t weight;            /* weight of all samples */
	uint64_t stops[STOP_COUNT]; /* number of samples by the reason why their walks ended */
	uint64_t lost, throttled;
	uint64_t bare;             /* samples that came without registers, which are left out */
	uint64_t begun;            /* when recording began: CLOCK_MONOTONIC, ns; 0: not known */
	uint64_t duration;         /* duration of recording, ns; 0: not known */
	time_t started;            /* when recording began; 0: not known */
	const char *measure;       /* "processor time" */
	char rate[72];             /* "1000 samples a second"; "": not known */
	struct profile_diff *diff; /* null: no comparison */
	struct profile_heap *heap; /* for `etch heap`; otherwise null */
	/* The processor time of the sampled processes in ns, if it is known (`timed`). */
	bool timed;
	uint64_t user_time, kernel_time;
	bool python_asked;     /* Python was asked to write maps, which must be removed */
	uint64_t python_blind; /* samples in Python of which no Python function is known; profile_name() sets it */
	unsigned python_minor; /* N of Python's version 3.N, if it is known */
	bool by_name;          /* frames are known by name: their addresses are numbers of names (folded_read.h) */
	bool attached;         /* recording attached to a running process */
	struct kallsyms kallsyms;
	bool kernel;          /* the kernel's frames are sampled */
	bool kernel_declined; /* they are not sampled because the user asked for that */
	bool wall;            /* waits and running are shown together */
	bool by_thread;       /* threads of one name are told apart */
	uint64_t kernel_seen; /* weight of the frame [kernel], which stands for time that was not sampled */
	size_t images_seen;   /* processes with samples, each exec(2) counting as another one; profile_name() sets it */
	uint64_t unnamed;     /* samples in code made at run time that has no name */
	bool frame_pointers;  /* rbp is followed through code that nothing describes (struct sample) */
	uint64_t guessed;     /* samples with frames that were found by frame pointers */
	uint64_t assumed;     /* samples with a frame in no code, whose caller was assumed */
	uint64_t period;      /* ns */
	unsigned stack;       /* bytes of stack that were asked for */
	enum profile_unit unit;
	bool no_memory;
	/* The values that pprof's samples have instead of their number and weight: one of each type for each sample. Null:
	 * they have number and weight.
	 */
	const struct profile_type *types;
	size_t type_count, type_default;
	uint64_t *values;

	/* Set by profile_name(). */
	struct key_set addresses; /* a: binary, b: address */
	uint32_t *address_of;     /* number of the address, indexed by stack node; KEY_NONE for a marker */
	struct profile_place *places;
	size_t place_count, place_capacity;
	size_t *place_first; /* index of the innermost place, indexed by address; its others follow, up to one that is not
	                        inlined */
	/* a: name << 32 | name of the binary; b: name in the symbol table << 32 | source file; all are numbers in
	 * `names` */
	struct key_set functions;
	/* Like `stacks`, but by function: a: caller << 32 | kind; b: function. The kind is that of a marker, BINARY_KERNEL,
	 * or 0 for any other function. */
	struct key_set calls;
	uint32_t *call_of; /* number of the innermost call, indexed by stack node */

	struct walk_frame frames[FRAMES_MOST]; /* frames of the sample that is being walked */
};

/* A type of pprof's values. */
struct profile_type {
	const char *name, *unit; /* as in pprof's documentation: "alloc_space", "bytes" */
};

/* A function to which an address belongs. Inlined functions come before the function into which they were inlined. */
struct profile_place {
	uint32_t function; /* number in `functions` */
	uint32_t file;     /* number of the name of the line's file; 0: not known */
	uint32_t line;     /* 0: not known */
	bool inlined;      /* into the place after it */
};

static inline uint32_t key_caller(const struct key *k) { return (uint32_t)(k->a >> 32); }
static inline uint32_t key_kind(const struct key *k) { return (uint32_t)k->a; }

/* Returns an empty profile, whose `names` has the empty name as number 0, or null if out of memory. */
struct profile *profile_new(void);
void profile_free(struct profile *p);

/* Takes a record of the kernel. This is a perf_record_fn. */
void profile_take(void *profile, const struct perf_event_header *h);
/* Call this when no record follows. `now` is CLOCK_MONOTONIC in ns. */
void profile_end(struct profile *p, uint64_t now);

/* Adds time in the kernel that was not sampled, as one frame below the process `pid`. */
void profile_kernel_time(struct profile *p, uint64_t ns, pid_t pid, uint64_t now);

/* Returns the processor time in ns that neither samples nor the frame [kernel] represent, or 0 if it is within the
 * error of sampling. */
uint64_t profile_unseen(const struct profile *p);

/* Names the frames. `lines` asks for source files and lines, for the formats that have them. Returns false if out of
 * memory.
 */
bool profile_name(struct profile *p, bool lines);

#endif
