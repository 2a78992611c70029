/* SPDX-License-Identifier: MIT */
/*
 * A profile: stacks with how often each was seen. Recording fills it (profile_record.c), profile_name() gives the
 * frames names, and the writers of `etch profile`'s formats read it.
 */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include "profile/key_set.h"
#include "profile/perf_ring.h"
#include "profile/sample_walk.h"

/*
 * Stacks share their outer frames: a node is a frame with its caller's node. The node's key: a = caller << 32 | binary,
 * b = address. Node 0 is the root; below it is a node for the name of the thread, then, if the walk did not reach the
 * end, one that says why, then frames.
 */
#define STACK_THREAD (UINT32_MAX - 1) /* in place of a binary; b: number of the name */
#define STACK_STOP   (UINT32_MAX - 2) /* b: enum stop */

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

struct profile {
	struct binary_list binaries;
	struct process_list processes;
	struct key_set stacks;
	struct string_set names;
	struct profile_sample *samples;
	size_t sample_count, sample_room;
	uint64_t weight;            /* of all samples */
	uint64_t stops[STOP_COUNT]; /* samples by where their walks ended */
	uint64_t lost, throttled;
	uint64_t bare; /* samples that came without registers, and are left out */
	/* Of a command that has ended: its processor time, ns. */
	bool timed;
	uint64_t user_time, kernel_time;
	bool frame_pointers; /* as in struct sample */
	uint64_t guessed;    /* samples with frames that were found so */
	uint64_t assumed;    /* samples with a frame in no code, whose caller was assumed */
	uint64_t period;     /* ns */
	unsigned stack;      /* bytes of stack asked for */
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
	size_t place_count, place_room;
	size_t *place_first; /* by address: its innermost place; the others follow, up to one that is not inlined */
	/* a: name << 32 | name of the binary; b: name in the symbol table << 32 | source file; numbers of `names` */
	struct key_set functions;
	/* As `stacks`, by function: a: caller << 32 | STACK_THREAD, STACK_STOP or 0; b: function. */
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

/* Gives the frames names. False: out of memory. */
bool profile_name(struct profile *p);

#endif
