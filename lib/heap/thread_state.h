/* SPDX-License-Identifier: MIT */
/* thread_state.h: the state that the recorder keeps for each thread (thread_state.c). It makes system calls only. */
#ifndef ETCH_LIB_HEAP_THREAD_STATE_H
#define ETCH_LIB_HEAP_THREAD_STATE_H

#include <etch/unwind.h>
#include <stdint.h>

#include "shared/heap_file.h"

/* A stack, innermost frame first, and its nodes. */
struct heap_stack {
	unsigned count;
	enum heap_stop stop;
	void *ips[HEAP_FRAMES_MOST];
	uint32_t nodes[HEAP_FRAMES_MOST];
};

/* The state of one thread. */
struct heap_thread {
	struct heap_thread *next;
	int tid;  /* ID of the thread that owns the state; another may take it over once that thread is gone */
	int busy; /* the recorder runs in this thread: a signal handler must not enter it */
	uint64_t random;
	uint64_t generation; /* generation of the recording and the code: stacks of two generations are not compared */
	int which;           /* stack[which] is the thread's last recorded stack */
	struct heap_stack stack[2];
	struct etch_walk walk;
};

/* This thread's state; null without memory. */
struct heap_thread *thread_state(void);
/* Called in the child of a fork, where only this thread is left. */
void thread_states_clear(void);

#endif
