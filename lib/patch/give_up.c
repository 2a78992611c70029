/* SPDX-License-Identifier: MIT */
/*
 * give_up.c: gives up the constants of a page: its sites become loads, and the page becomes writable.
 *
 * A store that nobody foresaw faults, because the page is read-only. The handler of SIGSEGV (trap.c) gives up the
 * constants of the page and returns, so that the store is executed again, now to memory from which all code reads.
 * The order keeps values right: first the sites become loads, then every thread passes a barrier, and only then the
 * page becomes writable. So no store reaches the page while a thread may still execute an old constant.
 *
 * RULES OF THIS FILE. Everything may run in a handler of SIGSEGV on a thread that was stopped anywhere: no malloc, no
 * thread-local storage, no errno, and of the C library only memcpy and memset. The lock is taken by
 * etch_lock_in_handler(), which reports when the lock cannot be taken.
 */
#include <linux/futex.h>
#include <time.h>

#include "common/sys.h"
#include "patch/give_up.h"
#include "patch/parts.h"

/* ---- the pages that have been given up ------------------------------------------------------------ */

/* How long etch_sync leaves a page alone that has been given up: the time doubles at each further time, unless
 * nothing has happened for long. */
#define HOLD_FIRST 100u     /* milliseconds */
#define HOLD_MOST  3600000u /* an hour */
#define HOLD_QUIET 8        /* if the last hold ended more than so many times its length ago, the next is HOLD_FIRST */

static uint64_t now_ms(void)
{
	struct timespec t = {0};

	sys_call3(SYS_clock_gettime, CLOCK_MONOTONIC_COARSE, (long)&t, 0);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void given_up_count(const struct module *m, uint64_t from, uint64_t to, struct etch_state *state)
{
	uint64_t now = now_ms(), last = 0;

	for (size_t i = module_object_from(m, from); i < m->object_count && m->object[i].addr < to; i++)
		state->set_often += !!(m->object[i].flags & OBJECT_OFTEN);
	for (uint64_t page = PAGE_OF(from); page < to; page += ETCH_PAGE) {
		const struct given_up *g = given_up_at(m, page);

		if (!g)
			continue;
		state->given_up += g->count;
		if (g->until > now && g->until - now > state->held_back)
			state->held_back = g->until - now;
		if (g->until >= last) {
			last = g->until;
			state->given_up_by = (const void *)(uintptr_t)g->by;
			state->given_up_at = (const void *)(uintptr_t)g->at;
		}
	}
}

int is_held_back(const struct module *m, const struct object *o)
{
	for (uint64_t page = PAGE_OF(o->addr); m->given_up && page < o->addr + o->size; page += ETCH_PAGE) {
		const struct given_up *g = given_up_at(m, page);

		if (g && now_ms() < g->until)
			return 1;
	}
	return 0;
}

int given_up_prepare(struct module *m)
{
	if (!m->given_up)
		m->given_up = sys_map(m->pages * sizeof(*m->given_up), 0);
	return m->given_up ? 0 : ETCH_ENOMEM;
}

struct given_up *given_up_note_of(const struct module *m, uint64_t at)
{
	return m->given_up ? &m->given_up[(at - m->page) / ETCH_PAGE] : NULL;
}

/* How long a page or an object is held back, given its last hold and when that ended. */
static uint32_t hold_next(uint32_t hold, uint64_t until, uint64_t now)
{
	if (!hold || now > until + (uint64_t)HOLD_QUIET * hold)
		return HOLD_FIRST;
	return hold < HOLD_MOST / 2 ? 2 * hold : HOLD_MOST;
}

/* When the first object that is held back may be armed again, in milliseconds; 0 if nothing is held back. Written
 * under the lock. */
static uint64_t hold_end;

int hold_is_over(void)
{
	uint64_t end = __atomic_load_n(&hold_end, __ATOMIC_RELAXED);

	return end && now_ms() >= end;
}

static void hold_ends_at(uint64_t end)
{
	if (!hold_end || end < hold_end)
		__atomic_store_n(&hold_end, end, __ATOMIC_RELAXED);
}

void hold_ends_find(void)
{
	uint64_t now = now_ms();

	__atomic_store_n(&hold_end, 0, __ATOMIC_RELAXED);
	for (const struct module *m = module_list; m; m = m->next)
		for (size_t i = 0; i < m->object_count; i++) {
			const struct object *o = &m->object[i];
			uint64_t end = now + HOLD_FIRST; /* objects that could not be armed are tried again */

			if (m->bad || !m->given_up ||
			    !((o->flags & OBJECT_OFTEN) || ((o->flags & OBJECT_WANTED) && was_given_up(m, o))))
				continue;
			for (uint64_t page = PAGE_OF(o->addr); page < o->addr + o->size; page += ETCH_PAGE)
				if (given_up_note_of(m, page)->until > end)
					end = given_up_note_of(m, page)->until;
			if ((o->flags & OBJECT_OFTEN) && given_up_note_of(m, o->addr)->often_until > end)
				end = given_up_note_of(m, o->addr)->often_until;
			hold_ends_at(end);
		}
}

/* Notes that the page of `at` was given up because the instruction at `by` stored to `at`. */
static void given_up_note(struct module *m, uint64_t at, uint64_t by, unsigned mode)
{
	struct given_up *g = given_up_note_of(m, at);
	uint64_t now = now_ms();

	if (!g)
		return;
	g->hold = hold_next(g->hold, g->until, now);
	g->until = mode & ETCH_STRAY_EAGER ? now : now + g->hold;
	g->count++;
	g->at = at;
	g->by = by;
	hold_ends_at(g->until);
}

/* ---- the stores that end the program instead ------------------------------------------------------- */

/* Does a row of an index stand for a call through a slot that overlaps [from, to)? */
static int pairs_call(const struct pair *p, size_t n, uint64_t from, uint64_t to)
{
	for (size_t i = pair_from(p, n, from - 7); i < n && p[i].key < to; i++)
		if (!(p[i].value & PAIR_FACT) && (p[i].value & PAIR_CALL))
			return 1;
	return 0;
}

int is_called_through(const struct module *m, const struct object *o)
{
	const struct sites *s = &m->sites[SITES_CALL];
	uint64_t to = o->addr + o->size;

	if (m->linked) {
		for (size_t i = sites_from(s, o->addr - 7); i < s->own_count; i++) {
			if (s->entry[i].form == ETCH_FORM_MORE)
				continue;
			if (site_own_object(&s->entry[i]) >= to)
				break;
			return 1;
		}
	} else if (pairs_call(s->own, s->own_count, o->addr, to)) {
		return 1;
	}
	for (size_t i = 0; i < m->inline_count; i++) {
		uint64_t slot = etch_ref((uint64_t)(uintptr_t)&m->inlines[i].slot, m->inlines[i].slot);

		if (slot + 8 > o->addr && slot < to)
			return 1;
	}
	for (const struct module *k = module_list; k; k = k->next)
		if (k->far_count && pairs_call(k->far, k->far_count, o->addr, to))
			return 1;
	return 0;
}

/* ---- the release ------------------------------------------------------------------------------- */

void page_mates_all(const struct module *m, size_t *first, size_t *end)
{
	size_t was;

	do {
		was = *end - *first;
		if (was)
			module_page_mates(m, first, end);
	} while (*end - *first != was);
}

/* Is the word at this address writable now? An atomic OR with 0 in the kernel finds out without a fault. */
static int is_writable(uint64_t at)
{
	static uint32_t nobody_waits;
	const long or_zero = (long)FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0);

	return sys_call6(SYS_futex, (long)&nobody_waits, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0,
	                 (long)(at & ~(uint64_t)3), or_zero) >= 0;
}

/* Finds the objects [*first, *end) that are on the page of an address, and those that share a page with these. */
static void page_objects(const struct module *m, uint64_t at, size_t *first, size_t *end)
{
	*first = *end = module_object_from(m, PAGE_OF(at));
	while (*end < m->object_count && m->object[*end].addr < PAGE_OF(at) + ETCH_PAGE)
		++*end;
	page_mates_all(m, first, end);
}

/* Turns the armed ones of these objects into loads and makes their pages writable. Returns 0 or an etch_error. */
static int armed_release(struct module *m, size_t first, size_t end)
{
	size_t sites;

	for (size_t i = first; i < end; i++)
		if (m->object[i].flags & OBJECT_ARMED)
			m->object[i].flags |= OBJECT_CHANGING | OBJECT_WANTED;
	return objects_release(m, first, end, &sites);
}

/* Gives up the page of an address, because of the instruction at `by`. Returns 0 or an etch_error. */
static int page_give_up(struct module *m, uint64_t at, uint64_t by, unsigned mode)
{
	size_t first, end;

	page_objects(m, at, &first, &end);
	for (size_t i = first; i < end && !(mode & ETCH_STRAY_CALLS); i++)
		if ((m->object[i].flags & OBJECT_SEALED) || is_called_through(m, &m->object[i]))
			return ETCH_EPERM;
	given_up_note(m, at, by, mode);
	return armed_release(m, first, end);
}

/* ---- the child of a fork ---------------------------------------------------------------------------- */

/* Gives the pages of text and data the protection that follows from segments and objects, whatever protection they
 * have. */
static void pages_recover(struct module *m)
{
	for (unsigned i = 0; i < m->image.segments; i++) {
		const struct segment *s = &m->image.segment[i];

		if ((s->prot & (PROT_EXEC | PROT_WRITE)) == PROT_EXEC)
			sys_mprotect(PAGE_OF(s->start), PAGE_UP(s->end) - PAGE_OF(s->start), s->prot);
	}
	for (size_t i = 0; i < m->pages; i++) {
		uint64_t page = m->page + i * ETCH_PAGE;
		unsigned opposite = !module_page_wanted(m, page);

		/* module_protect() changes the pages that are not as wanted. */
		m->readonly[i / 8] = (uint8_t)((m->readonly[i / 8] & ~(1u << (i % 8))) | opposite << (i % 8));
	}
	if (m->pages)
		module_protect(m, m->page, m->page + m->pages * ETCH_PAGE);
}

/* Gives every armed site the value that is in memory; objects that were about to be armed or released become loads. A
 * site that holds neither its load nor an immediate is left alone. */
static void objects_recover(struct module *m)
{
	for (size_t i = 0; i < m->object_count; i++) {
		struct object *o = &m->object[i];
		int changing = o->flags & (OBJECT_CHANGING | OBJECT_SEALING);
		struct txn t;

		o->flags &= ~(OBJECT_CHANGING | OBJECT_SEALING);
		if (!changing && !(o->flags & OBJECT_ARMED))
			continue;
		txn_begin(&t);
		if (!txn_plan_object(&t, o, changing ? PLAN_LOAD : PLAN_ARM, NULL))
			txn_commit(&t);
		txn_end(&t);
		if (changing)
			o->flags &= ~(OBJECT_ARMED | OBJECT_SEALED);
	}
}

void child_recover(void)
{
	swap_active = 0;
	data_swap_forget();
	for (struct module *m = module_list; m; m = m->next)
		if (!m->bad)
			objects_recover(m);
	for (struct module *m = module_list; m; m = m->next)
		if (!m->bad)
			pages_recover(m);
}

/* ---- objects that are set often -------------------------------------------------------------------- */

/* If a page's objects are set more often than this in a second, the object that is set becomes loads: each set that
 * changes code interrupts all threads, while one that changes none is a store. */
#define OFTEN 20u

/* Counts a set, and turns the object into loads if it is set too often. */
static void set_count(uint64_t at)
{
	struct module *m = module_at(at);
	struct object *o = m ? module_object(m, at) : NULL;
	struct given_up *g;
	uint64_t now = now_ms();

	if (!o || !(o->flags & OBJECT_ARMED) || (o->flags & OBJECT_SEALED) || is_called_through(m, o))
		return;
	if (given_up_prepare(m))
		return;
	g = given_up_note_of(m, o->addr);
	if (now - g->set_since >= 1000) {
		g->set_since = now;
		g->sets = 0;
	}
	if (++g->sets <= OFTEN || object_release(m, (size_t)(o - m->object)))
		return;
	g->sets = 0;
	g->often_hold = hold_next(g->often_hold, g->often_until, now);
	g->often_until = now + g->often_hold;
	o->flags |= OBJECT_OFTEN;
	hold_ends_at(g->often_until);
}

void sets_count(uint64_t at)
{
	if (!(stray_mode() & ETCH_STRAY_EAGER))
		set_count(at);
}

int is_set_often(const struct module *m, const struct object *o)
{
	return (o->flags & OBJECT_OFTEN) && now_ms() < given_up_note_of(m, o->addr)->often_until;
}

/* ---- a set whose pages cannot be replaced ------------------------------------------------------------ */

/* Releases a page for a set, which arms it again afterwards. In between, a plain store to an ops table would go as
 * unnoticed as one to a page that is writable. The same would hold for sealed objects, so they are refused. */
static int page_release(struct module *m, uint64_t at)
{
	size_t first, end;

	page_objects(m, at, &first, &end);
	for (size_t i = first; i < end; i++)
		if (m->object[i].flags & OBJECT_SEALED)
			return ETCH_EPERM;
	return armed_release(m, first, end);
}

int pages_release(const struct list *l)
{
	for (size_t i = 0; i < l->count; i++) {
		struct module *m = module_at(l->word[i].at);
		int err = m && module_page_readonly(m, l->word[i].at) ? page_release(m, l->word[i].at) : 0;

		if (err)
			return err;
	}
	return 0;
}

void pages_rearm(const struct list *l)
{
	for (size_t i = 0; i < l->count; i++) {
		struct module *m = module_at(l->word[i].at);

		if (m && m->object_count)
			page_rearm(m, l->word[i].at);
	}
}

/* ---- a store faulted ------------------------------------------------------------------------------- */

enum stray_outcome stray_store(uint64_t at, uint64_t by, unsigned mode, const struct module **which)
{
	struct module *m;

	for (m = module_list; m && !module_has_page(m, at); m = m->next)
		;
	*which = m;
	if (!m)
		return STRAY_ELSEWHERE;
	/* If the page is writable, somebody else has made it so since the fault; if not, the program itself has made it
	 * read-only. */
	if (!module_page_readonly(m, at))
		return is_writable(at) ? STRAY_RETRY : STRAY_ELSEWHERE;
	if (mode & ETCH_STRAY_DIE)
		return STRAY_REFUSED;
	return page_give_up(m, at, by, mode) ? STRAY_REFUSED : STRAY_GIVEN_UP;
}
