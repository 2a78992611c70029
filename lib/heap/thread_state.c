/* SPDX-License-Identifier: MIT */
/*
 * thread_state.c: a list of states, which only grows. No destructor runs at a thread's end, because destructors
 * allocate, too. Instead, a new thread tries a few states, and takes over one whose thread is gone.
 */
#include "heap/thread_state.h"

#include <errno.h>

#include "common/sys.h"
#include "heap/recording.h"

#define LOOKS 8 /* number of states that a new thread tries */

static __thread struct heap_thread *mine __attribute__((tls_model("initial-exec")));
static struct heap_thread *all, *next_look;

static int is_gone(long pid, int tid) { return sys_call3(SYS_tgkill, pid, tid, 0) == -ESRCH; }

/* Takes over the state of a thread that is gone, or of an earlier thread with this ID; null if none was found. */
static struct heap_thread *state_take(int tid)
{
	long pid = sys_call3(SYS_getpid, 0, 0, 0);
	struct heap_thread *t = __atomic_load_n(&next_look, __ATOMIC_RELAXED);

	for (int i = 0; i < LOOKS; i++) {
		int owner;

		if (!t)
			t = __atomic_load_n(&all, __ATOMIC_ACQUIRE);
		if (!t)
			return NULL;
		owner = __atomic_load_n(&t->tid, __ATOMIC_RELAXED);
		/* A thread that was killed inside the recorder has left `busy` set, and perhaps other changes half done. */
		if ((owner == tid || is_gone(pid, owner)) &&
		    __atomic_compare_exchange_n(&t->tid, &owner, tid, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
			__atomic_store_n(&next_look, t->next, __ATOMIC_RELAXED);
			t->busy = 0;
			t->generation = 0;
			t->walk.busy = 0;
			etch_walk_reset(&t->walk);
			return t;
		}
		t = t->next;
	}
	__atomic_store_n(&next_look, t, __ATOMIC_RELAXED);
	return NULL;
}

/* Makes a new state; null without memory. */
static struct heap_thread *state_new(int tid)
{
	struct heap_thread *t = recorder_map(sizeof(*t));

	if (!t)
		return NULL;
	t->tid = tid;
	t->random = ((uint64_t)tid * 0x9e3779b97f4a7c15u) | 1;
	t->next = __atomic_load_n(&all, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&all, &t->next, t, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		;
	return t;
}

struct heap_thread *thread_state(void)
{
	struct heap_thread *t = mine;
	int tid;

	if (__builtin_expect(t != NULL, 1))
		return t;
	tid = (int)sys_call3(SYS_gettid, 0, 0, 0);
	t = state_take(tid);
	if (!t)
		t = state_new(tid);
	return mine = t;
}

void thread_states_clear(void)
{
	if (mine)
		mine->tid = (int)sys_call3(SYS_gettid, 0, 0, 0);
}
