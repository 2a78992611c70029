/* SPDX-License-Identifier: MIT */
/*
 * stack.c: which memory the unwinder may read.
 *
 * RULES OF THIS FILE. All of it runs in signal context: no malloc, no lock, no lazy
 * TLS (initial-exec only), no libc, no errno. Do not introduce any dependency here.
 *
 * Nothing says cheaply where the current stack ends: it may be the main one, a
 * thread's, an alternate signal stack or a coroutine's. So the kernel is asked, a page
 * at a time, and a thread remembers the pages it has been told about: two runs of
 * them, of which one is usually the stack and the other a signal stack. A walk that
 * stays inside makes no system call.
 *
 * What is remembered can become wrong in one way: the thread unmaps a stack that it
 * has walked, later runs on a smaller one that overlaps it, and its frames lead astray
 * into the pages that are gone. Such a load faults: after etch_fault_init() it is one of
 * those that may (memory_load()); etch_unwind_strict() is for programs without.
 *
 * The kernel is asked even so: a thread that blocks SIGSEGV, as a handler of it does,
 * survives no fault, a program may have a handler of its own in place of ours, and a
 * system call a page costs nothing that a walk would notice.
 */
#include <errno.h>

#include "sys.h"
#include "unwind_internal.h"

#define PAGE_SHIFT 12
#define PAGE       ((uint64_t)1 << PAGE_SHIFT)
/* User addresses: 56 bits with five levels of page tables (Intel SDM vol. 1, 3.3.7.1). */
#define USER_BITS  56
/* Pages that are asked for to close a gap: a frame of that size, not a new stack. */
#define NEAR       64

/*
 * A run of pages in one word, so that a signal handler sees the old or the new one:
 * first page << 16 | pages - 1; 0 is none (page 0 is not a stack).
 */
static __thread uint64_t runs[2] __attribute__((tls_model("initial-exec")));
static int strict;

UNWIND_API int etch_unwind_strict(int on)
{
	return __atomic_exchange_n(&strict, !!on, __ATOMIC_RELAXED);
}

void stack_begin(void)
{
	if (__builtin_expect(__atomic_load_n(&strict, __ATOMIC_RELAXED), 0))
		runs[0] = runs[1] = 0;
}

/*
 * rt_sigprocmask(2) copies the new mask from user memory before it looks at `how`:
 * EFAULT where it cannot be read, EINVAL otherwise, and no effect at all. A fifth of
 * the price of process_vm_readv(2), and no sandbox forbids it. A kernel that looks at
 * `how` first would call all memory readable; so one address that cannot be is tried
 * before the first answer is believed.
 */
static long probe(uint64_t at)
{
	return sys_call6(SYS_rt_sigprocmask, ~0, (long)at, 0, 8, 0, 0);
}

static long probe_other(uint64_t at)
{
	uint64_t word;
	struct { uint64_t at, size; } here = { (uint64_t)(uintptr_t)&word, 8 }, there = { at, 8 };
	long pid = sys_call3(SYS_getpid, 0, 0, 0);

	return sys_call6(SYS_process_vm_readv, pid, (long)&here, 1, (long)&there, 1, 0);
}

int stack_page_readable(uint64_t at)
{
	static int kind;
	int k = __atomic_load_n(&kind, __ATOMIC_RELAXED);

	if (__builtin_expect(!k, 0)) {
		k = probe(UINT64_MAX - 4095) == -EFAULT ? 1 : 2;
		__atomic_store_n(&kind, k, __ATOMIC_RELAXED);
	}
	at &= ~(PAGE - 1);
	return k == 1 ? probe(at) == -EINVAL : probe_other(at) == 8;
}

static int pages_readable(uint64_t first, uint64_t last)
{
	for (; first <= last; first++)
		if (!stack_page_readable(first << PAGE_SHIFT))
			return 0;
	return 1;
}

int stack_window(uint64_t at, struct window *w)
{
	uint64_t first = at >> PAGE_SHIFT, last = (at + 7) >> PAGE_SHIFT;

	if (at >> USER_BITS || !first)
		return -1;
	for (int i = 0; i < 2; i++) {
		uint64_t run = runs[i], from = run >> 16, to = from + (run & 0xffff);

		if (!run || first + NEAR < from || last > to + NEAR)
			continue;
		if (first < from || last > to) {
			uint64_t lo = first < from ? first : from, hi = last > to ? last : to;

			if (hi - lo > 0xffff || (lo < from && !pages_readable(lo, from - 1)) ||
			    (hi > to && !pages_readable(to + 1, hi)))
				continue;
			from = lo;
			to = hi;
			runs[i] = from << 16 | (to - from);
		}
		w->lo = from << PAGE_SHIFT;
		w->hi = (to + 1) << PAGE_SHIFT;
		return 0;
	}
	if (!pages_readable(first, last))
		return -1;
	runs[1] = runs[0];
	runs[0] = first << 16 | (last - first);
	w->lo = first << PAGE_SHIFT;
	w->hi = (last + 1) << PAGE_SHIFT;
	return 0;
}
