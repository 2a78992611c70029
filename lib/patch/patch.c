/* SPDX-License-Identifier: MIT */
/*
 * patch.c: changes memory and instructions as one transaction.
 *
 * Everything is planned first (plan_sites.c, plan.c). Then the pages are made writable (text: W
 * is added, X never removed), memory is stored, text is stored, membarrier(2) makes every thread
 * of the process pass a serializing instruction, and the pages are protected again. A failure
 * before the barrier is rolled back while the pages are still writable.
 *
 * A site is one instruction. Inside one aligned 8-byte word it is replaced by one aligned store: by
 * AMD64 APM vol. 2, 7.6.1, another processor then executes either the old or the new
 * instruction. Any other site is replaced with its page (page_swap.c).
 */
#include <signal.h>

#include "patch/parts.h"
#include "common/sys.h"

/* ---- protection -------------------------------------------------------------- */

/*
 * Opens (adds W) or closes the pages of a sorted list, with one mprotect(2) per run of adjacent
 * pages; of data only the pages that are read-only outside a set. The closed protection of a page
 * is that of its segment, so text gets back exactly what it had. Stops after `limit` runs or at
 * the first failure, stores the number of runs done in *done, and returns 0 or a negative errno.
 */
static long runs_protect(const struct list *l, int text, int open, size_t limit, size_t *done)
{
	const struct segment *s = NULL;
	struct module *m = NULL;
	uint64_t start = 0, end = 0; /* the current run; empty if equal */
	int prot = 0, run_prot = 0;
	size_t i, runs = 0;
	long ret;

	for (i = 0; i <= l->count; i++) {
		uint64_t at = i < l->count ? l->word[i].at : 0, page = PAGE_OF(at);

		if (i < l->count) {
			if (text && l->word[i].swap)
				continue;
			if (start != end && at >= start && at < end)
				continue;
			if (!s || at < s->start || at >= s->end) {
				m = module_at(at);
				s = m ? image_segment(&m->image, at, 1) : NULL;
				prot = s ? s->prot : PROT_READ | PROT_WRITE;
			}
			/* Skips a copied variable in a program that is not a module, and a page
			 * that is writable anyway. */
			if (text ? prot & PROT_WRITE : !m || !module_page_readonly(m, at))
				continue;
			if (start != end && page == end && prot == run_prot) {
				end += ETCH_PAGE;
				continue;
			}
		}
		if (start != end) {
			if (runs == limit)
				break;
			ret = sys_mprotect(start, end - start,
			                   open   ? run_prot | PROT_WRITE
			                   : text ? run_prot
			                          : run_prot & ~PROT_WRITE);
			if (ret < 0) {
				*done = runs;
				return ret;
			}
			runs++;
		}
		start = page;
		end = page + ETCH_PAGE;
		run_prot = prot;
	}
	*done = runs;
	return 0;
}

static int pages_open(const struct list *l, int text)
{
	size_t done, ignored;
	long ret = runs_protect(l, text, 1, SIZE_MAX, &done);

	if (!ret)
		return 0;
	/* Including the run that failed: mprotect(2) may have changed a part of it. */
	runs_protect(l, text, 0, done + 1, &ignored);
	return errno_to_etch(ret);
}

/*
 * Closes the pages. Closing removes a permission, which no policy refuses. At the limit of
 * mappings it can fail when the open page was merged with a neighbour and the kernel cannot split
 * them again: by then the change is complete and remains, and the next set on the page closes it.
 */
static void pages_close(const struct list *l, int text)
{
	size_t done;

	if (runs_protect(l, text, 0, SIZE_MAX, &done))
		runs_protect(l, text, 0, SIZE_MAX, &done);
}

/* ---- the change --------------------------------------------------------------- */

typedef uint16_t __attribute__((aligned(1), may_alias)) u16_any;
typedef uint32_t __attribute__((aligned(1), may_alias)) u32_any;

/* Stores `count` bytes of a word: each field of 1, 2, 4 or 8 bytes by one store. */
static void bytes_store(uint64_t at, uint64_t bytes, unsigned count)
{
	while (count) {
		unsigned n = count >= 8 ? 8 : count >= 4 ? 4 : count >= 2 ? 2 : 1;

		/* For other sizes each part is stored aligned. */
		if (n != count)
			while (at & (n - 1))
				n >>= 1;
		if (n == 8)
			__atomic_store_n((uint64_t *)(uintptr_t)at, bytes, __ATOMIC_RELAXED);
		else if (n == 4)
			*(volatile u32_any *)(uintptr_t)at = (uint32_t)bytes;
		else if (n == 2)
			*(volatile u16_any *)(uintptr_t)at = (uint16_t)bytes;
		else
			*(volatile uint8_t *)(uintptr_t)at = (uint8_t)bytes;
		at += n;
		count -= n;
		bytes = n < 8 ? bytes >> (8 * n) : 0;
	}
}

/*
 * On a page that only sets may write to, the whole word by one store: a site that reads two fields
 * sees both or neither. Elsewhere only the bytes of the change: the program may be storing to its
 * neighbours.
 */
static void data_store(const struct word *w, uint64_t value)
{
	const struct module *m = module_at(w->at);
	unsigned i, n;

	if (m && module_page_readonly(m, w->at)) {
		__atomic_store_n((uint64_t *)(uintptr_t)w->at, value, __ATOMIC_RELAXED);
		return;
	}
	for (i = 0; i < 8; i += n) {
		for (n = 0; i + n < 8 && (w->mask >> (8 * (i + n)) & 0xff); n++)
			;
		if (n)
			bytes_store(w->at + i, value >> (8 * i), n);
		else
			n = 1;
	}
}

/* Changes one site. Its neighbours in the word are read from memory now: a debugger may have set a
 * breakpoint there since the plan was made. */
static int text_store(const struct word *w, uint64_t from, uint64_t to)
{
	uint64_t now = word_load(w->at);

	if ((now ^ from) & w->mask)
		return ETCH_EBUSY;
	__atomic_store_n((uint64_t *)(uintptr_t)w->at, (now & ~w->mask) | (to & w->mask), __ATOMIC_RELAXED);
	return 0;
}

/* Restores all data and the first `stored` words of text, while the pages are open. */
static void changes_undo(struct txn *t, struct swaps *s, size_t stored)
{
	if (s->count)
		part_objects.swaps_undo(s);
	while (stored--) {
		const struct word *w = &t->text.word[stored];

		if (!w->swap)
			text_store(w, w->new, w->old);
	}
	for (size_t i = t->data.count; i--;)
		data_store(&t->data.word[i], t->data.word[i].old);
	if (t->text.count)
		sync_valgrind(t->text.word[0].at, t->text.word[t->text.count - 1].at + 8);
	sync_cores();
}

/* Stores memory, then changes text. alone: no barrier for other threads is to be had. */
static int changes_do(struct txn *t, struct swaps *s, int alone)
{
	size_t i, stored = 0;
	int err = 0;

	for (i = 0; i < t->data.count; i++)
		data_store(&t->data.word[i], t->data.word[i].new);
	/* x86-64 keeps stores in order; the fence is for the compiler. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	for (; stored < t->text.count; stored++) {
		const struct word *w = &t->text.word[stored];

		/* Several entries for one instruction have the same bytes. */
		if (w->swap || (stored && w[-1].at == w->at && w[-1].mask == w->mask && w[-1].new == w->new))
			continue;
		err = text_store(w, w->old, w->new);
		if (err)
			break;
	}
	if (!err)
		err = s->count ? part_objects.swaps_do(s) : 0;
	if (t->text.count)
		sync_valgrind(t->text.word[0].at, t->text.word[t->text.count - 1].at + 8);
	if (t->text.count && !err) {
		if (alone || t->needs_alone)
			sync_self();
		if (!alone)
			err = sync_cores();
	}
	if (err)
		changes_undo(t, s, stored);
	return err;
}

/* Opens all pages that are stored to. Text that may not be made writable is swapped instead, which
 * needs no page that is writable and executable. */
static int changes_open(struct txn *t, struct swaps *s)
{
	int err = pages_open(&t->data, 0);

	if (err)
		return err;
	err = pages_open(&t->text, 1);
	if (err == ETCH_EPERM && !t->needs_alone && &part_objects && !part_objects.swaps_prepare_all(s, &t->text))
		err = pages_open(&t->text, 1);
	if (err)
		pages_close(&t->data, 0);
	return err;
}

/* Between two stores to one site a signal handler of this thread would execute half of it. */
static void signals_block(unsigned long *before)
{
	unsigned long all = ~0ul;

	sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)before, sizeof(all), 0, 0);
}

static void signals_restore(const unsigned long *before)
{
	sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)before, 0, sizeof(*before), 0, 0);
}

int swap_refused;

static int commit_once(struct txn *t)
{
	struct swaps swaps = {.count = 0};
	unsigned long mask = 0;
	int err, alone = 0;

	if (!t->data.count && !t->text.count)
		return 0;
	if (t->text.count) {
		err = list_sort(&t->text);
		if (err)
			return err;
		if (!sync_available()) {
			if (!sync_alone())
				return ETCH_ENOSYNC;
			alone = 1;
		}
		err = &part_objects ? part_objects.swaps_prepare(&swaps, &t->text) : 0;
		if (err)
			return err;
	}
	err = changes_open(t, &swaps);
	if (err) {
		if (swaps.count)
			part_objects.swaps_end(&swaps);
		return err;
	}
	if (t->needs_alone)
		signals_block(&mask);
	/* A handler may have created a thread since the plan was made. */
	err = t->needs_alone && !sync_alone() ? ETCH_ETHREADS : changes_do(t, &swaps, alone);
	if (t->needs_alone)
		signals_restore(&mask);
	if (swaps.count)
		part_objects.swaps_end(&swaps);
	pages_close(&t->text, 1);
	pages_close(&t->data, 0);
	return err;
}

int txn_commit(struct txn *t)
{
	int refused = commit_once(t), err = refused;

	/* A load that crosses a word is right as it is, if that is what the system refuses. */
	if (refused && &part_objects && part_objects.swaps_cancel_optional(&t->text))
		err = commit_once(t);
	/* A policy stays. Were it tried with each set, readers would see each value come, go and come again. */
	if (refused == ETCH_EPERM && !err)
		swap_refused = 1;
	return err;
}
