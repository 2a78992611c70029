/* SPDX-License-Identifier: MIT */
/*
 * give_up.c: the constants of a page are given up: its sites become loads, and it becomes writable.
 *
 * A store that nobody foresaw faults, since the page is read-only. The handler of SIGSEGV (trap.c) has the constants of
 * the page given up and returns, so that the store is executed again, now to memory from which all code reads. The
 * order is what keeps values right: the sites become loads, every thread passes a barrier, and only then the page
 * opens. So no store reaches the page while a thread may still execute an old constant.
 *
 * RULES OF THIS FILE. Everything may run in a handler of SIGSEGV on a thread that was stopped anywhere: no malloc, no
 * thread-local storage, no errno, nothing of the C library but memcpy and memset. The lock is taken by
 * etch_lock_in_handler(), which says when it cannot be had.
 */
#include <linux/futex.h>
#include <time.h>

#include "common/sys.h"
#include "patch/give_up.h"
#include "patch/parts.h"
#include "shared/search.h"

/* ---- what has been given up --------------------------------------------------------------------- */

/* How long etch_sync leaves a page alone that has been given up: doubled each time, unless it has been quiet for long.
 */
#define HOLD_FIRST 100u     /* milliseconds */
#define HOLD_MOST  3600000u /* an hour */
#define HOLD_QUIET 8        /* times the last hold: then it begins again */

static uint64_t now_ms(void)
{
	struct timespec t = {0};

	sys_call3(SYS_clock_gettime, CLOCK_MONOTONIC_COARSE, (long)&t, 0);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

const struct given_up *given_up_at(const struct module *m, uint64_t at)
{
	const struct given_up *g;

	if (!m->given_up || at < m->page || (at - m->page) / ETCH_PAGE >= m->pages)
		return NULL;
	g = &m->given_up[(at - m->page) / ETCH_PAGE];
	return g->count ? g : NULL;
}

void given_up_count(const struct module *m, uint64_t from, uint64_t to, struct etch_state *state)
{
	uint64_t now = now_ms(), last = 0;

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

int was_given_up(const struct module *m, const struct object *o)
{
	for (uint64_t page = PAGE_OF(o->addr); m->given_up && page < o->addr + o->size; page += ETCH_PAGE)
		if (given_up_at(m, page))
			return 1;
	return 0;
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

/* Notes that the page of `at` was given up to an instruction. Without memory for that nothing is noted, and the next
 * etch_sync arms it again. */
static void given_up_note(struct module *m, uint64_t at, uint64_t by, unsigned mode)
{
	struct given_up *g;
	uint64_t now = now_ms();

	if (!m->given_up)
		m->given_up = sys_map(m->pages * sizeof(*m->given_up), 0);
	if (!m->given_up)
		return;
	g = &m->given_up[(at - m->page) / ETCH_PAGE];
	if (!g->hold || now > g->until + (uint64_t)HOLD_QUIET * g->hold)
		g->hold = HOLD_FIRST;
	else
		g->hold = g->hold < HOLD_MOST / 2 ? 2 * g->hold : HOLD_MOST;
	g->until = mode & ETCH_STRAY_EAGER ? now : now + g->hold;
	g->count++;
	g->at = at;
	g->by = by;
}

/* ---- what ends the program instead ---------------------------------------------------------------- */

static size_t pair_from(const struct pair *p, size_t n, uint64_t key) { return SEARCH(n, i, p[i].key < key); }

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

int objects_release(struct module *m, size_t first, size_t end)
{
	struct txn t;
	size_t i;
	int err = 0;

	txn_begin(&t);
	for (i = first; i < end && !err; i++)
		if (m->object[i].flags & OBJECT_CHANGING)
			err = txn_plan_object(&t, &m->object[i], PLAN_LOAD, NULL);
	err = err ? err : txn_commit(&t);
	for (i = first; i < end; i++) {
		if (!err && (m->object[i].flags & OBJECT_CHANGING))
			m->object[i].flags &= ~(OBJECT_ARMED | OBJECT_SEALED);
		m->object[i].flags &= ~OBJECT_CHANGING;
	}
	if (!err) {
		module_patched += t.sites;
		err = module_protect(m, m->object[first].addr, m->object[end - 1].addr + m->object[end - 1].size);
	}
	txn_end(&t);
	return err;
}

void page_mates_all(const struct module *m, size_t *first, size_t *end)
{
	size_t was;

	do {
		was = *end - *first;
		if (was)
			module_page_mates(m, first, end);
	} while (*end - *first != was);
}

/* Is the word at this address writable now? An atomic OR with 0 in the kernel tells, without a fault. */
static int is_writable(uint64_t at)
{
	static uint32_t nobody_waits;
	const long or_zero = (long)FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0);

	return sys_call6(SYS_futex, (long)&nobody_waits, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0,
	                 (long)(at & ~(uint64_t)3), or_zero) >= 0;
}

int page_give_up(struct module *m, uint64_t at, uint64_t by, unsigned mode)
{
	size_t first, end, i;
	int err;

	first = end = module_object_from(m, PAGE_OF(at));
	while (end < m->object_count && m->object[end].addr < PAGE_OF(at) + ETCH_PAGE)
		end++;
	if (first == end)
		return ETCH_ENOTETCHED;
	page_mates_all(m, &first, &end);
	for (i = first; i < end && !(mode & ETCH_STRAY_CALLS); i++)
		if ((m->object[i].flags & OBJECT_SEALED) || is_called_through(m, &m->object[i]))
			return ETCH_EPERM;
	for (i = first; i < end; i++)
		if (m->object[i].flags & OBJECT_ARMED)
			m->object[i].flags |= OBJECT_CHANGING;
	err = objects_release(m, first, end);
	if (!err)
		given_up_note(m, at, by, mode);
	return err;
}

int pages_give_up(const struct list *l)
{
	for (size_t i = 0; i < l->count; i++) {
		struct module *m = module_at(l->word[i].at);

		if (m && module_page_readonly(m, l->word[i].at) && page_give_up(m, l->word[i].at, 0, 0))
			return 0;
	}
	return 1;
}

enum stray_outcome stray_store(uint64_t at, uint64_t by, unsigned mode, const struct module **which)
{
	struct module *m;

	for (m = module_list; m && (m->bad || at < m->page || (at - m->page) / ETCH_PAGE >= m->pages); m = m->next)
		;
	*which = m;
	if (!m)
		return STRAY_ELSEWHERE;
	/* Somebody else has opened it since; unless the program itself has made it read-only. */
	if (!module_page_readonly(m, at))
		return is_writable(at) ? STRAY_RETRY : STRAY_ELSEWHERE;
	if (mode & ETCH_STRAY_DIE)
		return STRAY_REFUSED;
	return page_give_up(m, at, by, mode) ? STRAY_REFUSED : STRAY_GIVEN_UP;
}
