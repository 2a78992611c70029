/* SPDX-License-Identifier: MIT */
/*
 * lock.c: the one lock of libetch, which serializes all that changes code, protection or the list of modules.
 *
 * Its holder has all signals blocked, except those that an instruction raises itself. A signal handler therefore never
 * interrupts a holder, and may take the lock: to set a value, or, in the handler of SIGSEGV, to give up the constants
 * of a page that somebody stored to (give_up.c). The lock is a word of its own, with a futex to sleep on, and not a
 * pthread_mutex_t: a handler may take it, and it names the thread that holds it.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>

#include "common/cancel.h"
#include "common/sys.h"
#include "patch/internal.h"
#include "patch/patch.h"
#include "patch/static_branch.h"

/* 0, or the thread id of the holder, with LOCK_WAITED while others may be asleep. A thread id has 30 bits at most
 * (FUTEX_TID_MASK). */
static uint32_t lock_word;
#define LOCK_WAITED 0x80000000u

/* The holder's: what it had blocked, and its state of cancellation. */
static uint64_t lock_mask;
static struct cancel canceling;
static int cancels;
/* How often the holder has taken the lock again, in the handlers of a fork. */
static unsigned lock_depth;

/* The number of waiting forks and loaders. Threads that set in a tight loop would otherwise take the lock again before
 * a waiter has woken up, and could delay a dlopen(3) for a second. */
static uint32_t urgent;

/* A fork is between the handlers of libetch: its thread holds the lock, and nothing is half done. */
static int forking;
/* On a page that fork(2) wipes in the child (MADV_WIPEONFORK, Linux 4.14): 0 tells a child that has not come to
 * fork_child(). The child of a vfork(2) shares the page. Null if there is none. */
static uint32_t *born;

static uint32_t self(void) { return (uint32_t)sys_call3(SYS_gettid, 0, 0, 0); }

static long futex(uint32_t *word, int op, uint32_t value)
{
	return sys_call6(SYS_futex, (long)word, op | FUTEX_PRIVATE_FLAG, (long)value, 0, 0, 0);
}

/* A fault must reach its handler: the kernel ends a process that has blocked the signal of one. */
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

static int is_forked(void) { return born && !__atomic_load_n(born, __ATOMIC_RELAXED); }

/* May this thread take the lock although it is held: by itself around a fork, or by the thread that has forked this
 * process? */
static int is_nested(uint32_t holder, uint32_t me)
{
	return __atomic_load_n(&forking, __ATOMIC_RELAXED) && (holder == me || is_forked());
}

/* Signals are blocked. 0, or why the lock cannot be had: ETCH_EBUSY. */
static int lock_take(uint32_t me)
{
	uint32_t now = 0, mine = me;

	if (__atomic_compare_exchange_n(&lock_word, &now, mine, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return 0;
	for (;;) {
		uint32_t holder = now & ~LOCK_WAITED;

		if (!now) {
			if (__atomic_compare_exchange_n(&lock_word, &now, mine, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return 0;
			continue;
		}
		if (is_nested(holder, me)) {
			lock_depth++;
			return 0;
		}
		/* This thread faulted while it held the lock; or a set of a thread that does not exist here was cut in half
		 * by _Fork(3), which runs no handlers. */
		if (holder == me || is_forked())
			return ETCH_EBUSY;
		if ((now & LOCK_WAITED) ||
		    __atomic_compare_exchange_n(&lock_word, &now, now | LOCK_WAITED, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			futex(&lock_word, FUTEX_WAIT, now | LOCK_WAITED);
		mine = me | LOCK_WAITED; /* others may be asleep, too */
		now = __atomic_load_n(&lock_word, __ATOMIC_RELAXED);
	}
}

static void lock_leave(uint64_t mask)
{
	if (__atomic_exchange_n(&lock_word, 0, __ATOMIC_RELEASE) & LOCK_WAITED)
		futex(&lock_word, FUTEX_WAKE, 1);
	signals_restore(mask);
}

/* Who takes the lock. */
enum taker { ORDINARY, URGENT, HANDLER };

/* Waits until no urgent taker does, unless this is one. */
static void let_urgent_pass(void)
{
	uint32_t n;

	while ((n = __atomic_load_n(&urgent, __ATOMIC_RELAXED)) && !__atomic_load_n(&forking, __ATOMIC_RELAXED) &&
	       !is_forked())
		futex(&urgent, FUTEX_WAIT, n);
}

static int lock_as(enum taker who)
{
	struct cancel was = {0, 0};
	uint64_t mask;
	int err;

	/* In a handler signals are blocked, so that no cancellation acts; and nothing of the C library is touched. */
	if (who != HANDLER)
		was = cancel_off();
	mask = signals_block();
	if (who == URGENT)
		__atomic_add_fetch(&urgent, 1, __ATOMIC_RELAXED);
	else
		let_urgent_pass();
	err = lock_take(self());
	if (who == URGENT && !__atomic_sub_fetch(&urgent, 1, __ATOMIC_RELAXED))
		futex(&urgent, FUTEX_WAKE, INT32_MAX);
	if (err) {
		signals_restore(mask);
		if (who != HANDLER)
			cancel_restore(was);
	} else if (!lock_depth) { /* else what the first one had is restored at the end */
		lock_mask = mask;
		canceling = was;
		cancels = who != HANDLER;
	}
	return err;
}

int etch_lock(void) { return lock_as(ORDINARY); }
int etch_lock_in_handler(void) { return lock_as(HANDLER); }
int etch_lock_first(void) { return lock_as(URGENT); }

void etch_unlock(void)
{
	struct cancel was = canceling;
	int restore = cancels;

	if (lock_depth) {
		lock_depth--;
		return;
	}
	lock_leave(lock_mask);
	if (restore)
		cancel_restore(was);
}

/* ---- fork(2) ------------------------------------------------------------------------------------- */

/* A fork waits for the set in progress. One that is called by what runs under the lock does not: its child is as that
 * of _Fork(3). */
static void fork_before(void)
{
	if (!etch_lock_first())
		__atomic_store_n(&forking, 1, __ATOMIC_RELAXED);
}

static void fork_parent(void)
{
	if (__atomic_exchange_n(&forking, 0, __ATOMIC_RELAXED))
		etch_unlock();
}

/* The child starts with a lock that nobody holds: it has one thread. */
static void fork_child(void)
{
	if (!forking)
		return;
	forking = 0;
	lock_word = 0;
	lock_depth = 0;
	urgent = 0;
	if (born)
		*born = 1;
	list_fork();
	if (marks_calls)
		marks_calls->fork();
	signals_restore(lock_mask);
	cancel_restore(canceling);
}

void etch_lock_prepare(void)
{
	uint32_t *page = sys_map(ETCH_PAGE, 0);

	if (page) {
		if (sys_call3(SYS_madvise, (long)page, ETCH_PAGE, MADV_WIPEONFORK)) {
			sys_munmap(page, ETCH_PAGE);
		} else {
			*page = 1;
			born = page;
		}
	}
	pthread_atfork(fork_before, fork_parent, fork_child);
}
