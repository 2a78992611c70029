/* SPDX-License-Identifier: MIT */
/*
 * mark_readers.c: the grace period of markers: finds out when every thread has left the callbacks that it was in.
 *
 * Each thread that comes to a marker has a reader, which holds the generation in which the thread entered its
 * outermost marker, or 0. A wait begins a new generation, and waits for the readers of older ones.
 *
 * It uses no lock and no malloc, because etch_mark_register_() may be called in a signal handler. Readers are never
 * unmapped; the reader of a thread that has ended is given to another. Code that is shared with signal handlers uses
 * only atomic operations.
 */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <etch/mark.h>

#include "common/sys.h"
#include "patch/internal.h"
#include "patch/patch.h"
#include "patch/static_branch.h"

/* One cache line that no two threads share. */
struct reader {
	struct etch_mark_reader_ r;
	int tid; /* 0: free */
	char pad[64 - sizeof(struct etch_mark_reader_) - sizeof(int)];
} __attribute__((aligned(64)));
#define FIRST 32
struct chunk {
	struct chunk *next;
	size_t count;
	struct reader reader[FIRST]; /* a mapped chunk has `count` of them */
};

static struct chunk first_chunk = {.count = FIRST};

ETCH_API __thread struct etch_mark_reader_ *etch_mark_self_ __attribute__((tls_model("initial-exec")));
ETCH_API unsigned long etch_mark_generation_ = 1;

static int my_tid(void) { return (int)sys_call3(SYS_gettid, 0, 0, 0); }

static int thread_is_gone(int tid) { return sys_call3(SYS_tgkill, (long)getpid(), tid, 0) == -ESRCH; }

/* Takes a reader for the thread `tid`, if it still has the owner `from`. Returns 1, or 0. */
static int reader_take(struct reader *x, int from, int tid)
{
	if (!__atomic_compare_exchange_n(&x->tid, &from, tid, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return 0;
	__atomic_store_n(&x->r.active, 0, __ATOMIC_RELEASE);
	return 1;
}

/* Finds a free reader, and takes it for the thread `tid`; null if there is none. gone: also takes the readers of
 * threads that have ended, at the cost of a system call for each reader. */
static struct reader *reader_find(int tid, int gone)
{
	for (struct chunk *c = &first_chunk; c; c = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE))
		for (size_t i = 0; i < c->count; i++) {
			struct reader *x = &c->reader[i];
			int now = __atomic_load_n(&x->tid, __ATOMIC_RELAXED);

			/* If the number is that of this thread, an earlier thread had the same number. */
			if ((!now || now == tid || (gone && thread_is_gone(now))) && reader_take(x, now, tid))
				return x;
		}
	return NULL;
}

static struct reader *reader_map(int tid)
{
	size_t size = 4 * ETCH_PAGE;
	struct chunk *c = sys_map(size, 0), *last = &first_chunk, *none;

	if (!c)
		return NULL;
	c->count = (size - offsetof(struct chunk, reader)) / sizeof(struct reader);
	c->reader[0].tid = tid;
	for (;; last = none) {
		none = NULL;
		if (__atomic_compare_exchange_n(&last->next, &none, c, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
			return &c->reader[0];
	}
}

ETCH_API struct etch_mark_reader_ *etch_mark_register_(void)
{
	int tid = my_tid();
	struct reader *x;

	/* A signal handler of this thread may have made a reader since the caller looked. */
	if (etch_mark_self_)
		return etch_mark_self_;
	x = reader_find(tid, 0);
	if (!x)
		x = reader_find(tid, 1);
	if (!x)
		x = reader_map(tid);
	if (!x)
		return NULL;
	/* If a handler takes a reader between the two lines, only the handler uses this one, and then it is free for the
	 * next thread with this number. */
	if (!etch_mark_self_)
		etch_mark_self_ = &x->r;
	return etch_mark_self_;
}

/* Is the thread of this reader in a callback that it entered before this generation? */
static int reader_is_older(const struct reader *x, unsigned long generation)
{
	unsigned long active = __atomic_load_n(&x->r.active, __ATOMIC_ACQUIRE);

	return active && active < generation;
}

int readers_self(void) { return etch_mark_self_ && etch_mark_self_->active; }

/* Waits between two looks at the readers, longer in later rounds. */
static void pause_briefly(unsigned round)
{
	struct timespec ts = {.tv_nsec = round < 100 ? 20000 : 1000000};

	if (round < 20)
		sys_call3(SYS_sched_yield, 0, 0, 0);
	else
		sys_call3(SYS_nanosleep, (long)&ts, 0, 0);
}

void readers_wait(void)
{
	unsigned long generation;

	if (sync_alone())
		return;
	generation = __atomic_add_fetch(&etch_mark_generation_, 1, __ATOMIC_SEQ_CST);
	/* A thread that stored its `active` before the barrier reached it is seen below; any other thread loads the new
	 * lists. Without the barrier nothing was ever attached while there were threads. */
	sync_cores();
	for (struct chunk *c = &first_chunk; c; c = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE))
		for (size_t i = 0; i < c->count; i++) {
			struct reader *x = &c->reader[i];
			unsigned round = 0;

			while (&x->r != etch_mark_self_ && reader_is_older(x, generation)) {
				if (round % 64 == 63 && thread_is_gone(__atomic_load_n(&x->tid, __ATOMIC_RELAXED)))
					break;
				pause_briefly(round++);
			}
		}
}

void readers_fork(void)
{
	int tid = my_tid();

	for (struct chunk *c = &first_chunk; c; c = c->next)
		for (size_t i = 0; i < c->count; i++) {
			struct reader *x = &c->reader[i];

			if (&x->r == etch_mark_self_)
				x->tid = tid;
			else
				*x = (struct reader){.tid = 0};
		}
}
