/* SPDX-License-Identifier: MIT */
/*
 * Threads that a test counts on. A loaded machine may run a new thread for the first time when main() has done all it
 * wanted, so main waits for them: a thread says that it has begun, and then goes at least once through its loop.
 */
#ifndef TESTS_THREADS_H
#define TESTS_THREADS_H

#include <sched.h>

static unsigned threads_begun;

static inline void thread_begun(void) { __atomic_add_fetch(&threads_begun, 1, __ATOMIC_SEQ_CST); }

/* Until that many more threads have begun than when it was called last. */
static inline void threads_wait(unsigned count)
{
	while (__atomic_load_n(&threads_begun, __ATOMIC_SEQ_CST) < count)
		sched_yield();
	__atomic_sub_fetch(&threads_begun, count, __ATOMIC_SEQ_CST);
}

#endif
