/* SPDX-License-Identifier: MIT */
/* thread_state.h: the state that the recorder keeps for each thread (thread_state.c). It makes system calls only. */
#ifndef ETCH_LIB_HEAP_THREAD_STATE_H
#define ETCH_LIB_HEAP_THREAD_STATE_H

#include <etch/unwind.h>
#include <stdbool.h>
#include <stdint.h>

#include "heap/stack_tree.h"

/* A stack. */
struct heap_stack {
	unsigned count; /* number of frames */
	unsigned known; /* number of outermost frames that are those of the thread's last recorded stack */
	enum heap_stop stop;
	bool is_stored;              /* the walk's state now has this stack, up to its outermost frame */
	void *ips[HEAP_FRAMES_MOST]; /* return addresses, the innermost first, without those of known frames */
};

/* The state of one thread. */
struct heap_thread {
	struct heap_thread *next;
	int tid;  /* ID of the thread that owns the state; another may take it over once that thread is gone */
	int busy; /* the recorder runs in this thread: a signal handler must not enter it */
	uint64_t random;
	uint64_t generation; /* generation of the recording and the code: stacks of two generations are not compared */
	/* `walk` has the frames of the stack that is in `frames`. */
	bool is_walk_recorded;
	struct heap_stack stack;
	/* The last recorded stack, the outermost frame first; after it frames of earlier stacks, or zeroes. */
	struct tree_frame frames[HEAP_FRAMES_MOST];
	struct etch_walk walk;
};

/* This thread's state; null without memory. */
struct heap_thread *thread_state(void);
/* Called in the child of a fork, where only this thread is left. */
void thread_states_clear(void);

#endif
