/* SPDX-License-Identifier: MIT */
/*
 * data_swap.c: stores to read-only pages of variables without making them writable.
 *
 * While a page is writable for a set, another thread's plain store to it would not fault, and nobody would know that
 * the constants in the code are wrong. So a set never makes it writable: it makes a copy of the page with the new
 * values, makes the copy read-only, and moves it over the page, as page_swap.c does with text. Only libetch, under
 * its lock, changes the page during that time. Threads that read see the old page or the new one; a store faults
 * before and after, and waits for the kernel's lock of the address space in between.
 */
#include <errno.h>

#include "common/sys.h"
#include "patch/give_up.h"
#include "patch/patch.h"

/* Adjacent pages of one segment that are replaced together. */
struct data_run {
	uint64_t start, end;
	uint64_t copy;      /* the mapping that is to replace them; 0: none */
	size_t first, last; /* their words in the list */
	int prot;           /* protection of the segment */
};

/* There is one transaction at a time, under the lock. The first `moved` runs have been replaced. */
static struct data_run run_space[4], *runs = run_space;
static size_t run_count, moved;

/* A page that has been replaced is a mapping of its own from then on, because mappings of memory at different places
 * do not merge. If more than this many pages would be replaced, they are set in another way (imv.c), which takes
 * longer. */
#define REPLACED_MOST 256u

/* Finds the runs of a list that is sorted by address. Stores the first `capacity` of them at `run`, and returns how
 * many there are. */
static size_t runs_find(const struct list *l, struct data_run *run, size_t capacity)
{
	struct data_run r = {0};
	size_t count = 0;

	for (size_t i = 0; i < l->count; i++) {
		uint64_t at = l->word[i].at;
		const struct module *m;
		int prot;

		if (at < r.end) {
			r.last = i + 1;
			continue;
		}
		m = module_at(at);
		if (!m || !module_page_readonly(m, at))
			continue;
		prot = image_segment(&m->image, at, 1)->prot;
		if (PAGE_OF(at) == r.end && prot == r.prot) {
			r.end += ETCH_PAGE;
			r.last = i + 1;
			continue;
		}
		if (r.end && count < capacity)
			run[count] = r;
		count += r.end != 0;
		r = (struct data_run){
			.start = PAGE_OF(at), .end = PAGE_OF(at) + ETCH_PAGE, .first = i, .last = i + 1, .prot = prot};
	}
	if (r.end && count < capacity)
		run[count] = r;
	return count + (r.end != 0);
}

/* Writes the run's present contents, and the words of the change, into a new mapping with the same protection.
 * Returns 0 or a negative errno. */
static long run_prepare(const struct list *l, struct data_run *r, int back)
{
	uint64_t size = r->end - r->start, *to = sys_map(size, MAP_POPULATE);
	long ret;

	if (!to)
		return -ENOMEM;
	r->copy = (uint64_t)(uintptr_t)to;
	for (uint64_t at = r->start; at < r->end; at += 8)
		to[(at - r->start) / 8] = word_load(at);
	for (size_t i = r->first; i < r->last; i++) {
		const struct word *w = &l->word[i];
		uint64_t *word = &to[(w->at - r->start) / 8];

		*word = (*word & ~w->mask) | ((back ? w->old : w->new) & w->mask);
	}
	ret = sys_mprotect(r->copy, size, r->prot & ~PROT_WRITE);
	/* msync(2) refuses this only if pages are locked in memory. */
	if (!ret && sys_call3(SYS_msync, (long)r->start, (long)size, MS_INVALIDATE) == -EBUSY)
		ret = sys_call3(SYS_mlock, (long)r->copy, (long)size, 0);
	return ret;
}

static long run_move(struct data_run *r)
{
	long ret = pages_move(r->copy, r->start, r->end - r->start);

	if (!ret)
		r->copy = 0;
	return ret;
}

static void run_drop(struct data_run *r)
{
	if (r->copy)
		sys_munmap((void *)(uintptr_t)r->copy, r->end - r->start);
	r->copy = 0;
}

/* Would a run exceed the number of pages that may be replaced? If not, notes that its pages are replaced. */
static int is_too_many(const struct data_run *r, const struct module *owner)
{
	unsigned fresh = 0, replaced = 0;
	uint64_t page;

	for (page = r->start; page < r->end; page += ETCH_PAGE)
		fresh += !given_up_note_of(owner, page)->replaced;
	if (!fresh)
		return 0;
	for (const struct module *m = module_list; m; m = m->next)
		for (size_t i = 0; m->given_up && i < m->pages; i++)
			replaced += m->given_up[i].replaced;
	if (replaced + fresh > REPLACED_MOST)
		return 1;
	for (page = r->start; page < r->end; page += ETCH_PAGE)
		given_up_note_of(owner, page)->replaced = 1;
	return 0;
}

long data_swap_prepare(const struct list *l)
{
	size_t capacity = sizeof(run_space) / sizeof(run_space[0]);
	long ret = 0;

	runs = run_space;
	moved = 0;
	run_count = runs_find(l, runs, capacity);
	if (run_count > capacity) {
		runs = sys_map(run_count * sizeof(*runs), 0);
		if (!runs) {
			runs = run_space;
			run_count = 0;
			return -ENOMEM;
		}
		runs_find(l, runs, run_count);
	}
	for (size_t i = 0; i < run_count && !ret; i++) {
		const struct module *m = module_at(l->word[runs[i].first].at);

		/* libetch's own table has no notes; it is one page. */
		ret = m->given_up && is_too_many(&runs[i], m) ? -ENOMEM : run_prepare(l, &runs[i], 0);
	}
	if (ret)
		data_swap_end();
	return ret;
}

void data_swap_undo(const struct list *l)
{
	for (size_t i = 0; i < run_count; i++) /* drops the copies that were not used, which frees memory */
		run_drop(&runs[i]);
	for (; moved; moved--) {
		struct data_run *r = &runs[moved - 1];

		/* This must succeed, because nobody has set the new values. */
		for (unsigned tries = 0; run_prepare(l, r, 1) || run_move(r); tries++) {
			run_drop(r);
			page_pause(tries);
		}
	}
}

long data_swap(const struct list *l)
{
	long ret = 0;

	while (moved < run_count && !ret) {
		ret = run_move(&runs[moved]);
		moved += !ret;
	}
	if (ret)
		data_swap_undo(l);
	return ret;
}

void data_swap_forget(void)
{
	runs = run_space;
	run_count = moved = 0;
}

void data_swap_end(void)
{
	for (size_t i = 0; i < run_count; i++)
		run_drop(&runs[i]);
	if (runs != run_space)
		sys_munmap(runs, run_count * sizeof(*runs));
	runs = run_space;
	run_count = moved = 0;
}
