/* SPDX-License-Identifier: MIT */
/*
 * lock.c: the one lock of libetch, which serializes everything that changes code, protection or the list of modules.
 *
 * Its holder has all signals blocked, except those that an instruction raises itself. A signal handler therefore
 * never interrupts a holder, and may take the lock: to set a value, or, in the handler of SIGSEGV, to give up the
 * constants of a page that somebody stored to (give_up.c). The lock is a word of its own, with a futex to sleep on,
 * and not a pthread_mutex_t, because a handler may take it and because it names the thread that holds it.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "common/cancel.h"
#include "common/sys.h"
#include "patch/parts.h"
#include "patch/static_branch.h"

/* 0, or the thread ID of the holder, with LOCK_WAITED while others may be asleep. A thread ID has at most 30 bits
 * (FUTEX_TID_MASK). */
static uint32_t lock_word;
#define LOCK_WAITED 0x80000000u

/* The holder's state: the signals that it had blocked, and its cancellation state. */
static uint64_t lock_mask;
static struct cancel canceling;
static int cancels;

/* The number of waiting forks and loaders. Without it, threads that set in a tight loop would take the lock again
 * before a waiter has woken up, and could delay a dlopen(3) for a second. */
static uint32_t urgent;

/*
 * A fork is between the handlers of libetch: its thread holds the lock, and nothing is half done. Meanwhile the C
 * library's fork takes further locks, such as malloc's. The thread that holds one of those may be waiting for
 * libetch's lock: it was interrupted in malloc, and its signal handler stores to an armed page. So during a fork the
 * lock has an inner lock. The forking thread takes that for the work of its other handlers, and so does a thread that
 * has waited long and is no loader or fork.
 */
static int forking;
static void *forker;   /* the thread pointer of the thread that forks; it is the same in the child */
static uint32_t inner; /* 0, or the ID of the thread that holds the inner lock */
static uint64_t inner_mask;
static struct cancel inner_canceling;
static int inner_cancels;
#define LONG_WAIT 20000000 /* nanoseconds */

/* On a page that fork(2) wipes in the child (MADV_WIPEONFORK, Linux 4.14): 0 identifies a child in which nothing of
 * libetch has run yet. The child of a vfork(2) shares the page. Null if there is none. */
static uint32_t *born;
enum { BORN_NOT, BORN, BORN_NOW };

static uint32_t self(void) { return (uint32_t)sys_call3(SYS_gettid, 0, 0, 0); }

static long futex(uint32_t *word, int op, uint32_t value, const struct timespec *most)
{
	return sys_call6(SYS_futex, (long)word, op | FUTEX_PRIVATE_FLAG, (long)value, (long)most, 0, 0);
}

/* A fault must reach its handler: the kernel ends a process that faults while it blocks the signal of the fault. */
static uint64_t signals_block(void)
{
	static const uint64_t raised = (uint64_t)1 << (SIGSEGV - 1) | (uint64_t)1 << (SIGBUS - 1) |
	                               (uint64_t)1 << (SIGILL - 1) | (uint64_t)1 << (SIGFPE - 1) |
	                               (uint64_t)1 << (SIGTRAP - 1) | (uint64_t)1 << (SIGSYS - 1);
	uint64_t all = ~raised, before = 0;

	sys_call6(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&before, sizeof(all), 0, 0);
	return before;
}

static void signals_restore(uint64_t before)
{
	sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof(before), 0, 0);
}

static void *thread_pointer(void)
{
	void *p;

	__asm__("mov %%fs:0, %0" : "=r"(p));
	return p;
}

/* Is this the child of fork(2), before fork_child()? */
static int is_in_fork(void)
{
	return born && __atomic_load_n(born, __ATOMIC_RELAXED) == BORN_NOT && forking && forker == thread_pointer();
}

/* Completes the work of threads that this child does not have. */
static void recover(void)
{
	list_fork();
	if (&part_objects)
		part_objects.recover();
}

/* The locks of a child belong to threads that it does not have, so the changes of these threads are half done. */
static void child_begin(void)
{
	int half_done = inner || (lock_word && !(forking && forker == thread_pointer()));

	sync_process_is(sys_call3(SYS_getpid, 0, 0, 0));
	forking = 0;
	inner = lock_word = urgent = 0;
	list_fork();
	if (marks_calls)
		marks_calls->fork();
	if (half_done)
		recover();
}

/* The child of _Fork(3) runs no handlers. It may have made threads since then. */
static void child_check(void)
{
	uint32_t now = BORN_NOT;

	if (!born || __atomic_load_n(born, __ATOMIC_ACQUIRE) == BORN || is_in_fork())
		return;
	if (__atomic_compare_exchange_n(born, &now, BORN_NOW, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
		child_begin();
		__atomic_store_n(born, BORN, __ATOMIC_RELEASE);
	}
	while (__atomic_load_n(born, __ATOMIC_ACQUIRE) != BORN)
		sys_call3(SYS_sched_yield, 0, 0, 0);
}

/* Takes the inner lock. In the child, before fork_child(), a thread that the child does not have may hold it. */
static void inner_take(uint32_t me)
{
	uint32_t now = 0;

	if (is_in_fork() && inner) {
		inner = me;
		recover();
		return;
	}
	while (!__atomic_compare_exchange_n(&inner, &now, me, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		futex(&inner, FUTEX_WAIT, now, NULL);
		now = 0;
	}
}

static void inner_leave(void)
{
	__atomic_store_n(&inner, 0, __ATOMIC_RELEASE);
	futex(&inner, FUTEX_WAKE, INT32_MAX, NULL);
}

/* Which lock a call of lock_take() has taken. */
enum taken { TAKEN, TAKEN_INNER, TAKEN_NONE };

/*
 * Waits for the lock, with signals blocked. TAKEN_NONE: this thread already has it, because it faulted while it held
 * it. patient: does not take the inner lock of another thread's fork, however long the fork takes. A fork needs the
 * lock itself, because its one forker identifies it; a loader changes the list of modules, which a child could not
 * complete.
 */
static enum taken lock_take(uint32_t me, int patient)
{
	static const struct timespec long_wait = {0, LONG_WAIT};
	uint32_t now = 0, mine = me;

	while (!__atomic_compare_exchange_n(&lock_word, &now, mine, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		uint32_t holder = now & ~LOCK_WAITED;
		long ret = 0;

		if (holder == me || is_in_fork()) {
			if (!__atomic_load_n(&forking, __ATOMIC_RELAXED))
				return TAKEN_NONE;
			inner_take(me);
			return TAKEN_INNER;
		}
		if ((now & LOCK_WAITED) ||
		    __atomic_compare_exchange_n(&lock_word, &now, now | LOCK_WAITED, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			ret = futex(&lock_word, FUTEX_WAIT, now | LOCK_WAITED, patient ? NULL : &long_wait);
		mine = me | LOCK_WAITED; /* others may be asleep, too */
		now = 0;
		if (ret != -ETIMEDOUT || !__atomic_load_n(&forking, __ATOMIC_RELAXED))
			continue;
		inner_take(me);
		/* A fork ends with the inner lock held. */
		if (__atomic_load_n(&forking, __ATOMIC_RELAXED))
			return TAKEN_INNER;
		inner_leave();
	}
	return TAKEN;
}

static void lock_leave(uint64_t mask)
{
	if (__atomic_exchange_n(&lock_word, 0, __ATOMIC_RELEASE) & LOCK_WAITED)
		futex(&lock_word, FUTEX_WAKE, 1, NULL);
	signals_restore(mask);
}

/* The kinds of callers that take the lock. */
enum taker { ORDINARY, URGENT, HANDLER };

/* Waits until no urgent taker waits. */
static void let_urgent_pass(void)
{
	uint32_t n;

	while ((n = __atomic_load_n(&urgent, __ATOMIC_RELAXED)) && !__atomic_load_n(&forking, __ATOMIC_RELAXED))
		futex(&urgent, FUTEX_WAIT, n, NULL);
}

static int lock_as(enum taker who)
{
	struct cancel was = {0, 0};
	uint64_t mask;
	enum taken taken;
	uint32_t me = self();

	/* In a handler signals are blocked, so no cancellation acts; and nothing of the C library is used. */
	if (who != HANDLER)
		was = cancel_off();
	mask = signals_block();
	child_check();
	if (who == URGENT)
		__atomic_add_fetch(&urgent, 1, __ATOMIC_RELAXED);
	else if (who == ORDINARY && (__atomic_load_n(&lock_word, __ATOMIC_RELAXED) & ~LOCK_WAITED) != me)
		let_urgent_pass(); /* an urgent taker may be waiting for this very thread */
	taken = lock_take(me, who == URGENT);
	if (who == URGENT && !__atomic_sub_fetch(&urgent, 1, __ATOMIC_RELAXED))
		futex(&urgent, FUTEX_WAKE, INT32_MAX, NULL);
	if (taken == TAKEN) {
		lock_mask = mask;
		canceling = was;
		cancels = who != HANDLER;
	} else if (taken == TAKEN_INNER) {
		inner_mask = mask;
		inner_canceling = was;
		inner_cancels = who != HANDLER;
	} else {
		signals_restore(mask);
		if (who != HANDLER)
			cancel_restore(was);
	}
	return taken == TAKEN_NONE ? ETCH_EBUSY : 0;
}

int etch_lock(void) { return lock_as(ORDINARY); }
int etch_lock_in_handler(void) { return lock_as(HANDLER); }
int etch_lock_first(void) { return lock_as(URGENT); }

void etch_unlock(void)
{
	int is_inner = __atomic_load_n(&inner, __ATOMIC_RELAXED) && inner == self();
	struct cancel was = is_inner ? inner_canceling : canceling;
	int restore = is_inner ? inner_cancels : cancels;

	if (is_inner) {
		uint64_t mask = inner_mask;

		inner_leave();
		signals_restore(mask);
	} else {
		lock_leave(lock_mask);
	}
	if (restore)
		cancel_restore(was);
}

/* ---- fork(2) ------------------------------------------------------------------------------------- */

/* A fork waits for the set in progress. A fork that code under the lock calls does not wait: its child is treated
 * like that of _Fork(3). */
static void fork_before(void)
{
	if (etch_lock_first())
		return;
	forker = thread_pointer();
	__atomic_store_n(&forking, 1, __ATOMIC_RELEASE);
}

static void fork_parent(void)
{
	if (!forking || forker != thread_pointer())
		return;
	inner_take(self()); /* a thread that has waited long enough to take it may still hold it */
	__atomic_store_n(&forking, 0, __ATOMIC_RELAXED);
	inner_leave();
	etch_unlock();
}

static void fork_child(void)
{
	uint64_t mask = lock_mask;
	struct cancel was = canceling;
	int held = forking && forker == thread_pointer();

	child_begin();
	if (born)
		*born = BORN;
	if (held) {
		signals_restore(mask);
		cancel_restore(was);
	}
}

void etch_lock_prepare(void)
{
	uint32_t *page = sys_map(ETCH_PAGE, 0);

	sync_process_is(sys_call3(SYS_getpid, 0, 0, 0));
	if (page) {
		if (sys_call3(SYS_madvise, (long)page, ETCH_PAGE, MADV_WIPEONFORK)) {
			sys_munmap(page, ETCH_PAGE);
		} else {
			*page = BORN;
			born = page;
		}
	}
	pthread_atfork(fork_before, fork_parent, fork_child);
}
