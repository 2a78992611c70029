/* SPDX-License-Identifier: MIT */
/*
 * patch.c: changes memory and instructions as one transaction.
 *
 * Everything is planned first (plan.c). Then the pages of text are made writable (W is added, X never removed), the
 * new values are stored to memory, then to text, membarrier(2) makes every thread of the process pass a serializing
 * instruction, and the pages are protected again. A failure before the barrier is rolled back while the pages are
 * still writable. While there are other threads, read-only pages of variables are replaced, not made writable
 * (data_swap.c), except in a static program that links only imv_read and imv_set: there nothing can be given up.
 *
 * A site is one instruction. Inside one aligned 8-byte word it is replaced by one aligned store: by AMD64 APM vol. 2,
 * 7.6.1, another processor then executes either the old or the new instruction. Any other site is replaced with its
 * page (page_swap.c).
 */
#include <errno.h>

#include "patch/parts.h"
#include "common/sys.h"

/* ---- protection -------------------------------------------------------------- */

/*
 * The number of pages without changes, of one segment of text, that a run extends over. Each run costs a system call,
 * and two mappings for good, because private pages that once were writable count against the commit limit and others
 * do not (VM_ACCOUNT). The pages in between are not written to, so they stay shared; but each costs an invalidation
 * in the TLB. A change that would make more than TEXT_RUNS runs extends them further, up to the whole segment.
 */
#define TEXT_GAP  (32 * ETCH_PAGE)
#define TEXT_RUNS 4

/* Does pages_protect() change the protection of a word's page? If so, *segment and *prot get the page's segment and the
 * protection of that segment. It does not change the page of a copied variable in a program that is not a module, nor
 * a page that is writable anyway. */
static int page_changes(uint64_t at, int text, const struct segment **segment, int *prot)
{
	const struct module *m = module_at(at);

	*segment = m ? image_segment(&m->image, at, 1) : NULL;
	*prot = *segment ? (*segment)->prot : PROT_WRITE;
	return text ? !(*prot & PROT_WRITE) : m && module_page_readonly(m, at);
}

/*
 * Opens (adds W) or closes the pages of a list, with one mprotect(2) per run of pages that are at most `gap` bytes
 * apart; of data, only the pages that are read-only outside a set. The closed protection of a page is that of its
 * segment, so text gets back exactly the protection it had. Opening ends at the first failure, closing does not.
 * Returns 0 or a negative errno.
 */
static long pages_protect(const struct list *l, int text, int open, uint64_t gap)
{
	uint64_t start = 0, end = 0; /* the current run; empty if equal */
	const struct segment *run_segment = NULL;
	int run_prot = 0;
	long err = 0;

	for (size_t i = 0; i <= l->count; i++) {
		uint64_t at = i < l->count ? l->word[i].at : 0;
		const struct segment *segment = NULL;
		int prot = 0;

		if (i < l->count) {
			if (l->word[i].swap || at - start < end - start || !page_changes(at, text, &segment, &prot))
				continue;
			if (start != end && prot == run_prot &&
			    (PAGE_OF(at) == end || (segment == run_segment && PAGE_OF(at) - end <= gap))) {
				end = PAGE_OF(at) + ETCH_PAGE;
				continue;
			}
		}
		if (start != end) {
			int closed = text ? run_prot : run_prot & ~PROT_WRITE;
			long ret = sys_mprotect(start, end - start, open ? run_prot | PROT_WRITE : closed);

			if (ret < 0)
				err = ret;
			if (err && open)
				break;
		}
		start = PAGE_OF(at);
		end = start + ETCH_PAGE;
		run_prot = prot;
		run_segment = segment;
	}
	return err;
}

/*
 * Closes the pages. Closing removes a permission, which no policy refuses. At the limit of mappings it can fail if
 * the open page was merged with a neighbour and the kernel cannot split them again: by then the change is complete
 * and remains, and the next set on the page closes it.
 */
static void pages_close(const struct list *l, int text, uint64_t gap)
{
	if (pages_protect(l, text, 0, gap))
		pages_protect(l, text, 0, 0); /* perhaps the program has unmapped pages in between */
}

/* Finds the `gap` for pages_protect() with which the words of a list, if they are in one segment, are in at most
 * TEXT_RUNS runs. */
static uint64_t text_gap(const struct list *l)
{
	uint64_t gap = TEXT_GAP;

	for (;; gap *= 2) {
		uint64_t end = 0;
		unsigned runs = 0;

		for (size_t i = 0; i < l->count; i++) {
			if (l->word[i].swap || l->word[i].at < end)
				continue;
			runs += !end || PAGE_OF(l->word[i].at) - end > gap;
			end = PAGE_OF(l->word[i].at) + ETCH_PAGE;
		}
		if (runs <= TEXT_RUNS || gap > INT32_MAX)
			return gap;
	}
}

/* Opens the pages of text. If the system has not enough memory for the pages in between (strict overcommit), or the
 * program has unmapped some of them, tries with a smaller gap, and then opens only the pages that are written to.
 * Changes `gap` to the one that closes them. Returns 0 or a negative errno. */
static long text_open(const struct list *l, uint64_t *gap)
{
	long ret;

	for (*gap = text_gap(l);; *gap = *gap > TEXT_GAP ? TEXT_GAP : 0) {
		ret = pages_protect(l, 1, 1, *gap);
		if (ret != -ENOMEM || !*gap)
			return ret;
		pages_close(l, 1, *gap);
	}
}

/* ---- the change --------------------------------------------------------------- */

typedef uint16_t __attribute__((aligned(1), may_alias)) u16_any;
typedef uint32_t __attribute__((aligned(1), may_alias)) u32_any;

/*
 * On a page that only sets may write to, one store writes the whole word, so that a site that reads two fields sees
 * both or neither. Elsewhere only the bytes of the change are written, because the program may be storing to their
 * neighbours: each field of 1, 2, 4 or 8 bytes by one store, other sizes in parts, each of them aligned.
 */
static void data_store(const struct word *w, uint64_t value)
{
	const struct module *m = module_at(w->at);
	uint64_t mask = m && module_page_readonly(m, w->at) ? ~(uint64_t)0 : w->mask;
	unsigned i = 0, n;

	for (; i < 8; i += n) {
		uint8_t *at = (uint8_t *)(uintptr_t)(w->at + i);
		uint64_t rest = mask >> 8 * i;

		for (n = 8; n > 1 && (~rest & byte_mask(n) || (i % n && rest >> 8 * n & 0xff)); n /= 2)
			;
		if (n == 8)
			__atomic_store_n((uint64_t *)(void *)at, value, __ATOMIC_RELAXED);
		else if (n == 4)
			*(volatile u32_any *)(void *)at = (uint32_t)(value >> 8 * i);
		else if (n == 2)
			*(volatile u16_any *)(void *)at = (uint16_t)(value >> 8 * i);
		else if (rest & 0xff)
			*(volatile uint8_t *)at = (uint8_t)(value >> 8 * i);
	}
}

/* Changes one site. Its neighbours in the word are read from memory now, because a debugger may have set a breakpoint
 * there since the plan was made. Several entries for one instruction have the same bytes. */
static int text_store(const struct word *w, uint64_t from, uint64_t to)
{
	uint64_t now = word_load(w->at);

	if (w->swap || !((now ^ to) & w->mask))
		return 0;
	if ((now ^ from) & w->mask)
		return ETCH_EBUSY;
	__atomic_store_n((uint64_t *)(uintptr_t)w->at, (now & ~w->mask) | (to & w->mask), __ATOMIC_RELAXED);
	return 0;
}

/* Is a word on a page that is read-only outside a set? */
static int is_guarded(const struct word *w)
{
	const struct module *m = module_at(w->at);

	return m && module_page_readonly(m, w->at);
}

/* Are the pages to be replaced? With one thread nobody stores to them while they are open, and opening them is
 * cheaper. */
static int data_by_swap(const struct txn *t)
{
	size_t i;

	for (i = 0; i < t->data.count && !is_guarded(&t->data.word[i]); i++)
		;
	return i < t->data.count && (sync_had_threads() || !(t->alone >= 0 ? t->alone : sync_alone()));
}

/* Stores the new values to memory, or with `back` the old ones. Returns 0, or an etch_error and then nothing has
 * changed; with `back` it cannot fail. */
static int data_change(struct txn *t, int back)
{
	const struct list *l = &t->data;
	long ret = 0;

	if (t->data_swapped) {
		if (back)
			part_objects.data_swap_undo(l);
		else
			ret = part_objects.data_swap(l);
		t->data_refused = ret != 0;
	}
	for (size_t i = 0; i < l->count && !ret; i++)
		if (!t->data_swapped || !is_guarded(&l->word[i]))
			data_store(&l->word[i], back ? l->word[i].old : l->word[i].new);
	return errno_to_etch(ret);
}

/* Tells valgrind that the code from the first to the last word of a list has changed. */
static void text_discard(const struct list *l)
{
	uint64_t from = UINT64_MAX, to = 0;

	for (size_t i = 0; i < l->count; i++) {
		from = l->word[i].at < from ? l->word[i].at : from;
		to = l->word[i].at > to ? l->word[i].at : to;
	}
	if (l->count)
		sync_valgrind(from, to + 8);
}

/* Restores all data and the first `stored` words of text, while the pages of text are open. */
static void changes_undo(struct txn *t, size_t stored)
{
	if (t->swaps)
		part_objects.swaps_undo(t->swaps);
	while (stored--)
		text_store(&t->text.word[stored], t->text.word[stored].new, t->text.word[stored].old);
	data_change(t, 1);
	text_discard(&t->text);
	sync_cores();
}

/* Stores to memory, then changes text. alone: there is no barrier for other threads. */
static int changes_do(struct txn *t, int alone)
{
	size_t stored = 0;
	int err = data_change(t, 0);

	if (err)
		return err;
	/* x86-64 keeps stores in order; the fence is for the compiler. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	for (; stored < t->text.count && !err; stored++)
		err = text_store(&t->text.word[stored], t->text.word[stored].old, t->text.word[stored].new);
	if (!err && t->swaps)
		err = part_objects.swaps_do(t->swaps);
	text_discard(&t->text);
	if (t->text.count && !err) {
		if (alone || t->needs_alone)
			sync_self();
		if (!alone)
			err = sync_cores();
	}
	if (err)
		changes_undo(t, stored);
	return err;
}

int txn_change(struct txn *t)
{
	int alone = 0, err;
	uint64_t gap;
	long ret;

	t->text_refused = 0;
	if (t->text.count && !sync_available()) {
		if (!sync_alone())
			return ETCH_ENOSYNC;
		alone = 1;
	}
	t->data_swapped = &part_objects && data_by_swap(t);
	ret = t->data_swapped ? part_objects.data_swap_prepare(&t->data) : pages_protect(&t->data, 0, 1, 0);
	err = errno_to_etch(ret);
	t->data_refused = t->data_swapped && err;
	if (!err) {
		ret = text_open(&t->text, &gap);
		err = errno_to_etch(ret);
		t->text_refused = err == ETCH_EPERM;
		if (!err)
			err = changes_do(t, alone);
		pages_close(&t->text, 1, gap);
	}
	if (t->data_swapped)
		part_objects.data_swap_end();
	else
		pages_close(&t->data, 0, 0);
	return err;
}

int txn_commit(struct txn *t) { return (&part_objects ? part_objects.commit : txn_change)(t); }
