/* SPDX-License-Identifier: MIT */
/*
 * page_swap.c: changes any bytes of whole pages of text at once, while threads execute them: a copy with the changes
 * is prepared elsewhere and moved over the old pages by one mremap(2).
 *
 * A set comes here twice: commit_any() prepares the copies, and txn_change() (patch.c), which first stores to memory,
 * calls swaps_do() to move them.
 *
 * The kernel holds mmap_lock for writing over the whole call. It unmaps the old pages and flushes the TLB of every
 * CPU that runs the process (mremap_to(), do_vmi_munmap(); tlb_finish_mmu() returns when each has acknowledged)
 * before it installs the first page of the copy (move_page_tables()), and a fault in between waits for the lock
 * (lock_vma_under_rcu() finds no mapping, or a detached one). So an instruction, even one that crosses a page inside
 * one run, is fetched whole from the old pages or whole from the new ones. The barrier that follows (sync.c) discards
 * what was fetched before. mremap_to() and move_vma() (6.1; later vrm_*()) check addresses, limits and the segment's
 * kind before the unmapping. docs/live-patching.md has the argument in full.
 *
 * The copy is a private mapping of the same file at the same offset, so that /proc/self/maps, profilers and uprobes
 * see what they saw. It is never writable and executable.
 */
#include <errno.h>
#include <sys/stat.h>

#include "common/sys.h"
#include "common/valgrind.h"
#include "patch/patch.h"

/* The number of pages without changes that a run may extend over, instead of becoming two runs: each run costs a few
 * system calls and up to two mappings. */
#define GAP (2 * ETCH_PAGE)

static struct swap_run run_space[4];

int swap_active;
unsigned swap_count;
int swap_refused;

/* ---- runs of pages ------------------------------------------------------------------ */

static const struct segment *text_segment(uint64_t at, uint64_t size, struct module **owner)
{
	struct module *m = module_at(at);
	const struct segment *s = m ? image_segment(&m->image, at, size) : NULL;

	*owner = m;
	return s && s->prot == (PROT_READ | PROT_EXEC) && !m->bad ? s : NULL;
}

const struct segment *text_swappable(uint64_t at, unsigned size)
{
	struct module *m;

	return text_segment(at, size, &m);
}

/* Finds the runs of a sorted list: pages with a word that has to be swapped, each with all words on them. Stores the
 * first `capacity` of them at `run`, and returns how many there are; or -1 if a word cannot be swapped. */
static long runs_find(const struct list *l, struct swap_run *run, long capacity)
{
	struct swap_run r = {0};
	const struct segment *s = NULL;
	struct module *m = NULL;
	long count = 0;

	for (size_t i = 0; i < l->count; i++) {
		const struct word *w = &l->word[i];
		uint64_t page = PAGE_OF(w->at);

		if (w->at < r.end)
			r.last = i + 1;
		if (w->swap != WORD_SWAP && w->swap != WORD_SWAP_OPTIONAL)
			continue;
		if (!s || w->at < s->start || w->at >= s->end) {
			s = text_segment(w->at + (unsigned)__builtin_ctzll(w->mask) / 8, 1, &m);
			if (!s)
				return -1;
		}
		if (w->at >= r.end && r.end && r.segment == s && page <= r.end + GAP) {
			r.end = page + ETCH_PAGE;
			r.last = i + 1;
		} else if (w->at >= r.end) {
			if (r.end && count < capacity)
				run[count] = r;
			count += r.end != 0;
			r = (struct swap_run){
				.start = page, .end = page + ETCH_PAGE, .first = i, .last = i + 1, .owner = m, .segment = s};
			while (r.first && l->word[r.first - 1].at >= page)
				r.first--;
		}
		r.required |= w->swap == WORD_SWAP;
	}
	if (r.end && count < capacity)
		run[count] = r;
	return count + (r.end != 0);
}

/* ---- the copy ---------------------------------------------------------------------- */

/* All changes of one word. */
struct change {
	uint64_t new, mask;
};

/* Adds up the changes of those words of [*w, end) that are at `at`, and moves *w past them. back: the changes go from
 * the new values to the old ones, and only where the new value is still there. Returns 0 if memory (`now`) does not
 * hold what is expected. */
static int change_at(const struct word **w, const struct word *end, uint64_t at, uint64_t now, int back,
                     struct change *all)
{
	for (; *w < end && (*w)->at == at; ++*w) {
		if ((now ^ (back ? (*w)->new : (*w)->old)) & (*w)->mask) {
			if (!back)
				return 0;
			continue;
		}
		all->new = (all->new & ~(*w)->mask) | ((back ? (*w)->old : (*w)->new) & (*w)->mask);
		all->mask |= (*w)->mask;
	}
	return 1;
}

static uint64_t *copy_word(const struct swap_run *r, uint64_t at)
{
	return (uint64_t *)(uintptr_t)(r->copy + (at - r->start));
}

/* Writes the present contents of a page and the changes [*w, end) into the copy, which holds the file's contents. */
static int page_fill(const struct word **w, const struct word *end, struct swap_run *r, uint64_t page, int back)
{
	static struct marks marks; /* not on the stack: libetch promises to use little of it */
	uint64_t *to = copy_word(r, page), at;

	marks.any = 0;
	for (at = page; at < page + ETCH_PAGE; at += 8, to++) {
		uint64_t now = word_load(at), new = now, mask = 0;

		if (*w < end && (*w)->at == at) {
			struct change change = {0, 0};

			if (!change_at(w, end, at, now, back, &change))
				return ETCH_EBUSY;
			mask = change.mask;
			new = (now & ~mask) | change.new;
		}
		if (now != *to)
			marks_add(&marks, at, now, *to, mask);
		if (new != *to)
			*to = new;
	}
	if (!marks.any || !marks_breakpoint(&marks, r->owner, page))
		return 0;
	r->breakpoints = 1;
	/* A copy that is a mapping of the file may keep the breakpoint. So may any copy while an earlier run is being put
	 * back, because there it is better to keep a breakpoint than to fail. */
	if (!r->anonymous || back)
		return 0;
	/* The kernel would not find its uprobes in memory that does not belong to the file. valgrind runs another file,
	 * so the program's file is not found; it makes breakpoints without changing code. */
	return text_file_untouched(page) || valgrind_request(VALGRIND_RUNNING, 0, 0) ? 0 : ETCH_EBUSY;
}

/* Does the text still hold what the copy was made from? */
static int run_same(const struct list *l, const struct swap_run *r)
{
	const struct word *w = l->word + r->first, *end = l->word + r->last;
	const uint64_t *copy = copy_word(r, r->start);

	for (uint64_t at = r->start; at < r->end; at += 8, copy++) {
		uint64_t now = word_load(at);
		struct change change = {0, 0};

		if (w < end && w->at == at && !change_at(&w, end, at, now, 0, &change))
			return 0;
		if ((now ^ *copy) & ~change.mask)
			return 0;
	}
	return 1;
}

static void run_drop(struct swap_run *r)
{
	if (r->copy)
		sys_munmap((void *)(uintptr_t)r->copy, r->end - r->start);
	r->copy = 0;
}

/* Locks the copy if the text is locked: only then msync(2) refuses to invalidate. Returns 0 or a negative errno. */
static long run_lock(const struct swap_run *r)
{
	uint64_t size = r->end - r->start;

	if (sys_call3(SYS_msync, (long)r->start, (long)size, MS_INVALIDATE) != -EBUSY)
		return 0;
	return sys_call3(SYS_mlock, (long)r->copy, (long)size, 0);
}

/* Makes the copy of a run. Returns 0 or an etch_error. */
static int run_prepare(const struct list *l, struct swap_run *r, int back)
{
	uint64_t size = r->end - r->start;
	const struct word *w = l->word + r->first, *end = l->word + r->last;
	long ret = text_file_map(r->owner, r->segment, r->start, size, &r->anonymous);
	int err = 0;

	if (ret < 0)
		return errno_to_etch(ret);
	r->copy = (uint64_t)ret;
	for (uint64_t page = r->start; page < r->end && !err; page += ETCH_PAGE)
		err = page_fill(&w, end, r, page, back);
	if (!err) {
		ret = sys_mprotect(r->copy, size, PROT_READ | PROT_EXEC);
		if (!ret)
			ret = run_lock(r);
		if (ret < 0)
			err = errno_to_etch(ret);
	}
	if (err)
		run_drop(r);
	return err;
}

/* ---- the swap ----------------------------------------------------------------------- */

static const long pause_1ms[2] = {0, 1000000}; /* struct timespec */
#define PAUSES 10000

/* Ends the process, because its code is incomplete. */
static void give_up(void)
{
	static const char text[] = "etch: code that was unmapped or half changed cannot be mapped again: out of memory\n";

	sys_call3(SYS_write, 2, (long)text, sizeof(text) - 1);
	__builtin_trap();
}

void page_pause(unsigned tries)
{
	if (tries >= PAUSES)
		give_up();
	sys_call3(SYS_nanosleep, (long)pause_1ms, 0, 0);
}

/*
 * mremap(2) checks its arguments before it unmaps; after that only an allocation inside the kernel can fail. The
 * pages are then missing and the copy is still there, so the call is repeated until it succeeds; threads that fault
 * in the meantime return to the instruction (trap.c).
 */
long pages_move(uint64_t copy, uint64_t to, uint64_t size)
{
	int missing = 0;
	long ret;

	__atomic_add_fetch(&swap_count, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&swap_active, 1, __ATOMIC_RELEASE);
	for (unsigned tries = 0;; tries++) {
		ret = sys_call6(SYS_mremap, (long)copy, (long)size, (long)size, MREMAP_MAYMOVE | MREMAP_FIXED, (long)to, 0);
		if (ret == (long)to)
			break;
		missing = missing || sys_call3(SYS_msync, (long)to, (long)size, MS_ASYNC) == -ENOMEM;
		if (!missing)
			break;
		page_pause(tries);
	}
	__atomic_store_n(&swap_active, 0, __ATOMIC_RELEASE);
	return ret == (long)to ? 0 : ret;
}

/* Moves the copy of a run over its pages. Returns 0 or an etch_error. */
static int run_move(struct swap_run *r)
{
	long ret = pages_move(r->copy, r->start, r->end - r->start);

	if (ret)
		return errno_to_etch(ret);
	if (r->anonymous)
		text_file_left(r->start, r->end);
	r->copy = 0;
	return 0;
}

/*
 * Separates the pages of each run from their mapping. This split is what costs mappings; each later move frees one.
 * So a process that has run out of mappings is refused before the first page has changed. The advice has no effect on
 * pages that are about to be replaced.
 */
static int runs_split(const struct swaps *s)
{
	for (size_t i = 0; s->count > 1 && i < s->count; i++) {
		const struct swap_run *r = &s->run[i];

		if (r->copy && sys_call3(SYS_madvise, (long)r->start, (long)(r->end - r->start), MADV_RANDOM) == -ENOMEM) {
			do
				sys_call3(SYS_madvise, (long)s->run[i].start, (long)(s->run[i].end - s->run[i].start), MADV_NORMAL);
			while (i--);
			return ETCH_ENOMEM;
		}
	}
	return 0;
}

int swaps_prepare(struct swaps *s, struct list *l)
{
	long count, capacity = sizeof(run_space) / sizeof(run_space[0]);
	int err = 0;

	*s = (struct swaps){.text = l, .run = run_space};
	count = runs_find(l, run_space, capacity);
	if (count <= 0)
		return count ? ETCH_EPERM : 0;
	s->count = (size_t)count;
	if (count > capacity) {
		s->run = sys_map(s->count * sizeof(*s->run), 0);
		if (!s->run)
			return ETCH_ENOMEM;
		runs_find(l, s->run, count);
	}
	for (size_t i = 0; i < s->count && !err; i++) {
		struct swap_run *r = &s->run[i];

		err = run_prepare(l, r, 0);
		for (size_t k = r->first; k < r->last; k++) {
			uint64_t *how = &l->word[k].swap;

			if (!err && *how == WORD_STORE)
				*how = WORD_SWAP_ALONG;
			else if (err && *how == WORD_SWAP_OPTIONAL)
				*how = WORD_DROPPED;
		}
		if (!r->required)
			err = 0;
	}
	if (!err)
		err = runs_split(s);
	if (err)
		swaps_end(s);
	return err;
}

int swaps_do(struct swaps *s)
{
	int err;

	for (; s->done < s->count; s->done++) {
		struct swap_run *r = &s->run[s->done];
		long watch;

		if (!r->copy)
			continue;
		watch = r->breakpoints ? breakpoints_watch() : -1;
		r->moved = 1;
		err = run_same(s->text, r) ? run_move(r) : ETCH_EBUSY;
		if (err) {
			r->moved = 0;
			return err;
		}
		if (breakpoints_may_differ(watch))
			breakpoints_drop(r);
	}
	return 0;
}

void swaps_undo(struct swaps *s)
{
	/* Drops the copies that were not used, which frees memory. */
	for (size_t i = 0; i < s->count; i++)
		run_drop(&s->run[i]);
	while (s->done--) {
		struct swap_run *r = &s->run[s->done];

		for (unsigned tries = 0; r->moved; tries++) {
			long watch = breakpoints_watch();

			if (!run_prepare(s->text, r, 1) && !run_move(r))
				r->moved = 0;
			else
				page_pause(tries); /* values that nobody has set must not stay */
			run_drop(r);
			if (!r->moved && r->breakpoints && breakpoints_may_differ(watch))
				breakpoints_drop(r);
		}
	}
	s->done = 0;
}

void swaps_end(struct swaps *s)
{
	for (size_t i = 0; i < s->count && s->run; i++)
		run_drop(&s->run[i]);
	if (s->run != run_space && s->run)
		sys_munmap(s->run, s->count * sizeof(*s->run));
	s->count = 0;
}

int swaps_cancel_optional(struct list *text)
{
	int any = 0;

	for (size_t i = 0; i < text->count; i++) {
		uint64_t *how = &text->word[i].swap;

		if (*how == WORD_SWAP_OPTIONAL) {
			*how = WORD_DROPPED;
			any = 1;
		} else if (*how == WORD_SWAP_ALONG) {
			*how = WORD_STORE;
		}
	}
	return any;
}

/* ---- a change with swaps, or with several stores to one site of a process with one thread ---- */

/* Is a word of this list to be changed by a swap? */
static int swaps_any(const struct list *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->word[i].swap)
			return 1;
	return 0;
}

/* Prepares the swaps that the changes need, and makes the changes. Returns 0 or an etch_error. */
static int commit_once(struct txn *t)
{
	struct swaps swaps;
	int err = swaps_prepare(&swaps, &t->text);

	if (err)
		return err;
	t->swaps = swaps.count ? &swaps : NULL;
	/* Between two stores to one site no signal handler of this thread runs, because the lock blocks signals. Another
	 * process that shares this memory may have created a thread since the plan was made. */
	err = t->needs_alone && !sync_alone() ? ETCH_ETHREADS : txn_change(t);
	t->swaps = NULL;
	swaps_end(&swaps);
	return err;
}

int commit_any(struct txn *t)
{
	int refused = list_sort(&t->text), text_refused, err;
	size_t i;

	if (refused)
		return refused;
	refused = commit_once(t);
	text_refused = t->text_refused;
	/* Text that may not be made writable is swapped, which needs no page that is writable and executable. */
	if (text_refused && !t->needs_alone) {
		for (i = 0; i < t->text.count; i++)
			if (!t->text.word[i].swap)
				t->text.word[i].swap = WORD_SWAP;
		refused = commit_once(t);
	}
	/* The process had other threads, and may have none now: then plain stores suffice, which need nothing that was
	 * refused to the swaps. */
	if (refused && !text_refused && swaps_any(&t->text) && t->alone < 0 && sync_alone()) {
		for (i = 0; i < t->text.count; i++)
			t->text.word[i].swap = WORD_STORE;
		t->needs_alone = 1;
		return commit_once(t);
	}
	err = refused;
	/* A load that crosses a word, and that the system refuses to change, is correct as it is. */
	if (refused && swaps_cancel_optional(&t->text))
		err = commit_once(t);
	/* A policy does not change. If each set tried the swap, readers would see each new value appear, disappear and
	 * appear again. */
	if (refused == ETCH_EPERM && !err)
		swap_refused = 1;
	return err;
}
