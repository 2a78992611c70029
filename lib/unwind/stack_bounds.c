/* SPDX-License-Identifier: MIT */
/*
 * stack_bounds.c: determines which memory the unwinder may read.
 *
 * RULES OF THIS FILE. All of it runs in signal context: no malloc, no lock, no lazy
 * TLS (initial-exec only), no libc, no errno. Do not introduce any dependency here.
 *
 * There is no cheap way to find the end of the current stack: it may be the main stack, a
 * thread's, an alternate signal stack or a coroutine's. So the kernel is asked, one page at a
 * time, and each thread caches the pages found readable as two runs, usually the stack and a
 * signal stack. A walk inside these runs makes no system call.
 *
 * The cache can become wrong in one way: the thread unmaps a stack that it has walked, later
 * runs on a smaller one that overlaps it, and a corrupt frame there leads into the unmapped
 * pages. Such a load faults: after etch_fault_init() it resumes (memory_load()); programs that
 * do not call it use etch_unwind_strict().
 *
 * Asking the kernel is necessary even with the fault handler: a thread that blocks SIGSEGV, as a
 * SIGSEGV handler does, does not survive a fault; the program may have replaced libetch's
 * handler; and one system call per page is not noticeable.
 */
#include <errno.h>

#include "common/sys.h"
#include "common/valgrind.h"
#include "unwind/unwind_internal.h"

#define PAGE_SHIFT 12
#define PAGE       ((uint64_t)1 << PAGE_SHIFT)
/* User addresses have 56 bits with five levels of page tables (Intel SDM vol. 1, 3.3.7.1). */
#define USER_BITS 56
/* Maximum gap, in pages, between an address and a run that is closed by extending the run: such a gap is a large
 * frame, not another stack. */
#define NEAR 64

/*
 * A run of pages in one word, so that a signal handler sees either the old or the new one: first page << 16 | pages -
 * 1; 0 is empty (page 0 is never a stack).
 */
static __thread uint64_t runs[2] __attribute__((tls_model("initial-exec")));
int stack_strict;

UNWIND_API int etch_unwind_strict(int on) { return __atomic_exchange_n(&stack_strict, !!on, __ATOMIC_RELAXED); }

void stack_forget(void) { runs[0] = runs[1] = 0; }

/*
 * Asks the kernel whether 8 bytes are readable. rt_sigprocmask(2) copies the new mask from user memory before it
 * validates `how`: it returns EFAULT if the mask is unreadable, else EINVAL, and has no effect in either case. It is
 * cheaper than process_vm_readv(2), and sandboxes do not forbid it. A kernel that validates `how` first would report
 * all memory as readable, so ask_how() tries an address that is known to be unreadable before the first answer is
 * used.
 */
static long probe(uint64_t at) { return sys_call6(SYS_rt_sigprocmask, ~0, (long)at, 0, 8, 0, 0); }

/* Reads this process's own memory as if it were another's. Returns the number of bytes up to one that cannot be read,
 * or an error. */
static long read_other(void *to, uint64_t at, uint64_t size)
{
	struct {
		uint64_t at, size;
	} here = {(uint64_t)(uintptr_t)to, size}, there = {at, size};
	long pid = sys_call3(SYS_getpid, 0, 0, 0);

	return sys_call6(SYS_process_vm_readv, pid, (long)&here, 1, (long)&there, 1, 0);
}

enum { ASK_MASK = 1, ASK_OTHER = 2 };

/*
 * valgrind reports a system call with an address that cannot be read as the program's error, and rt_sigprocmask(2) is
 * no exception. It does not check addresses in another process.
 */
static int ask_how(void)
{
	uint64_t word = 0, copy;

	if (valgrind_request(VALGRIND_RUNNING, 0, 0) && read_other(&copy, (uint64_t)(uintptr_t)&word, 8) == 8)
		return ASK_OTHER;
	return probe(UINT64_MAX - 4095) == -EFAULT ? ASK_MASK : ASK_OTHER;
}

int stack_page_readable(uint64_t at)
{
	static int how;
	int k = __atomic_load_n(&how, __ATOMIC_RELAXED);
	uint64_t word;

	if (__builtin_expect(!k, 0)) {
		k = ask_how();
		__atomic_store_n(&how, k, __ATOMIC_RELAXED);
	}
	at &= ~(PAGE - 1);
	return k == ASK_MASK ? probe(at) == -EINVAL : read_other(&word, at, 8) == 8;
}

int memory_copy(void *to, uint64_t at, uint64_t size)
{
	long n = read_other(to, at, size);

	if (n >= 0 || n == -EFAULT)
		return n == (long)size ? 0 : -1;
	/* A sandbox forbids that system call. */
	for (uint64_t p = at & ~(PAGE - 1); p < at + size; p += PAGE)
		if (!stack_page_readable(p))
			return -1;
	/* Takes each byte from its aligned word, which does not cross a page. */
	for (uint64_t i = 0; i < size; i++)
		((uint8_t *)to)[i] = (uint8_t)(memory_load((at + i) & ~(uint64_t)7) >> 8 * ((at + i) & 7));
	return 0;
}

static int pages_readable(uint64_t first, uint64_t last)
{
	for (; first <= last; first++)
		if (!stack_page_readable(first << PAGE_SHIFT))
			return 0;
	return 1;
}

/* Handles addresses whose pages are in neither run, or that belong to no stack. */
static __attribute__((noinline)) int window_ask(uint64_t at, struct window *w)
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

int stack_reopen(uint64_t at, struct window *w)
{
	for (int i = 0; i < 2; i++)
		if ((at >> PAGE_SHIFT) - (runs[i] >> 16) <= (runs[i] & 0xffff))
			runs[i] = 0;
	return window_ask(at, w);
}

WALK int stack_window(uint64_t at, struct window *w)
{
	for (int i = 0; i < 2; i++) {
		uint64_t run = runs[i], lo = run >> 16 << PAGE_SHIFT, last = (run & 0xffff) << PAGE_SHIFT | (PAGE - 8);

		/* An empty run is page 0. */
		if (at - lo <= last && lo) {
			w->lo = lo;
			w->hi = lo + last + 8;
			return 0;
		}
	}
	return window_ask(at, w);
}
