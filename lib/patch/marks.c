/* SPDX-License-Identifier: MIT */
/*
 * marks.c: markers (etch/mark.h): the attachments, and the change of the markers' instructions.
 *
 * An attachment is a pattern, a function and its data. Each name of each module has a head in the module's memory,
 * with the calls of the attachments that match, in order. A change of the attachments makes new lists for all heads
 * that it concerns, in one mapping, and publishes them; then the instructions follow: a jump if a list has a call,
 * else a nop. Either order is safe: code that is jumped to finds an empty list, or a list is not read.
 *
 * When every thread has left the code that it was in (mark_readers.c), the old lists are unmapped, and a detached
 * function is out of use. Code waits for that without the lock.
 */
#include <etch/mark.h>

#include "common/sys.h"
#include "patch/static_branch.h"

#define PATTERN_MAX 128 /* bytes, with the NUL */

struct watch {
	struct watch *next; /* the next attachment, in order; for a free struct, the next free one */
	etch_mark_fn *fn;
	void *data;
	char pattern[PATTERN_MAX];
};
static struct watch *watches, *free_watches;

/* A mapping with lists of calls. */
struct lists {
	struct lists *next; /* next retired mapping */
	size_t size, used;
	unsigned long heads; /* number of heads that have one of its lists */
};
/* Precedes the calls of each list. */
struct list_owner {
	struct lists *lists;
	void *pad;
};
/* Mappings that no head uses, but that some thread may still use. */
static struct lists *retired;

static int mark_matches(const char *pattern, const char *name)
{
	const char *star = NULL, *from = NULL;

	while (*name) {
		if (*pattern == '*') {
			star = ++pattern;
			from = name;
		} else if (*pattern && (*pattern == '?' || *pattern == *name)) {
			pattern++;
			name++;
		} else if (star) {
			pattern = star;
			name = ++from;
		} else {
			return 0;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

static struct etch_mark_head *head_of(const struct etch_mark_site *x)
{
	return (struct etch_mark_head *)(uintptr_t)field_target(&x->head);
}

/* ---- the markers of all modules, or of one ------------------------------------- */

struct mark_iterator {
	struct module *only, *m; /* only: null for all modules */
	size_t i;
};

/* The next marker; null at the end. */
static const struct etch_mark_site *mark_next(struct mark_iterator *e)
{
	for (;;) {
		if (!e->m)
			e->m = e->only ? e->only : module_list;
		for (; e->m && !e->m->bad && e->i < e->m->mark_count;) {
			const struct etch_mark_site *x = &e->m->marks[e->i++];

			if (!mark_is_dropped(e->m, x))
				return x;
		}
		if (!e->m || e->only || !e->m->next)
			return NULL;
		e->m = e->m->next;
		e->i = 0;
	}
}

/* ---- lists of calls -------------------------------------------------------------- */

/* The number of attachments that match a name. */
static size_t calls_for(const char *name)
{
	size_t n = 0;

	for (const struct watch *w = watches; w; w = w->next)
		n += (size_t)mark_matches(w->pattern, name);
	return n;
}

/* The mapping that has this list of calls. */
static struct lists *owner_of(const struct etch_mark_call_ *calls)
{
	return ((const struct list_owner *)(const void *)calls)[-1].lists;
}

/* Notes that a head no longer uses a list. */
static void calls_drop(const struct etch_mark_call_ *calls)
{
	struct lists *l = calls ? owner_of(calls) : NULL;

	if (l && !--l->heads) {
		l->next = retired;
		retired = l;
	}
}

/* Stand for lists, as values of `pending`: to_make for one that is yet to be made, empty for one without calls. */
static const struct etch_mark_call_ to_make[1], empty[1];

static void list_make(struct lists *l, struct etch_mark_head *h, const char *name)
{
	struct list_owner *owner = (struct list_owner *)(void *)((uint8_t *)l + l->used);
	struct etch_mark_call_ *c = (struct etch_mark_call_ *)(void *)(owner + 1);

	owner->lists = l;
	h->pending = c;
	for (const struct watch *w = watches; w; w = w->next)
		if (mark_matches(w->pattern, name))
			*c++ = (struct etch_mark_call_){w->fn, w->data};
	l->used = (size_t)((uint8_t *)(c + 1) - (uint8_t *)l); /* the mapping is zeroed, so the terminator is there */
	l->heads++;
}

/* Makes the lists of heads whose name matches `pattern`, as `pending`. *sites gets the number of sites that match.
 * Returns 0 or ETCH_ENOMEM. */
static int lists_make(struct module *only, const char *pattern, struct lists **out, long *sites)
{
	struct mark_iterator e = {.only = only};
	const struct etch_mark_site *x;
	size_t size = sizeof(struct lists), n;
	struct lists *l = NULL;
	int any = 0;

	*sites = 0;
	while ((x = mark_next(&e)))
		head_of(x)->pending = NULL;
	for (e = (struct mark_iterator){.only = only}; (x = mark_next(&e));) {
		struct etch_mark_head *h = head_of(x);

		if (!mark_matches(pattern, etch_mark_name(&x->mark)))
			continue;
		++*sites;
		if (h->pending)
			continue;
		n = calls_for(etch_mark_name(&x->mark));
		h->pending = n ? to_make : empty;
		size += n ? sizeof(struct list_owner) + (n + 1) * sizeof(struct etch_mark_call_) : 0;
		any |= n != 0;
	}
	*out = NULL;
	if (!any)
		return 0;
	l = sys_map(size, 0);
	if (!l)
		return ETCH_ENOMEM;
	l->size = size;
	l->used = sizeof(*l);
	for (e = (struct mark_iterator){.only = only}; (x = mark_next(&e));)
		if (head_of(x)->pending == to_make)
			list_make(l, head_of(x), etch_mark_name(&x->mark));
	*out = l;
	return 0;
}

/* Exchanges `calls` and `pending` of the heads that have a new list; a second call restores them. */
static void lists_publish(struct module *only, const char *pattern)
{
	struct mark_iterator e = {.only = only};
	const struct etch_mark_site *x;

	while ((x = mark_next(&e))) {
		struct etch_mark_head *h = head_of(x);
		const struct etch_mark_call_ *old = h->calls;

		/* If a head has several sites, the first site exchanges, and sets the low bit of `pending` as a mark. */
		if (!mark_matches(pattern, etch_mark_name(&x->mark)) || !h->pending || ((uintptr_t)h->pending & 1))
			continue;
		__atomic_store_n(&h->calls, h->pending == empty ? NULL : h->pending, __ATOMIC_RELEASE);
		h->pending = (const struct etch_mark_call_ *)((uintptr_t)(old ? old : empty) | 1);
	}
	for (e = (struct mark_iterator){.only = only}; (x = mark_next(&e));)
		head_of(x)->pending = (const struct etch_mark_call_ *)((uintptr_t)head_of(x)->pending & ~(uintptr_t)1);
}

/* Drops the lists that are `pending`: old ones, or new ones that are not wanted. */
static void lists_drop(struct module *only)
{
	struct mark_iterator e = {.only = only};
	const struct etch_mark_site *x;

	while ((x = mark_next(&e))) {
		struct etch_mark_head *h = head_of(x);

		if (h->pending && h->pending != empty)
			calls_drop(h->pending);
		h->pending = NULL;
	}
}

/* ---- instructions ------------------------------------------------------------------- */

/* Returns 1 if the site is a jump to its target, 0 if it is a nop, -1 if it is neither. */
static int mark_state(const struct etch_mark_site *x, const uint8_t *have)
{
	uint8_t image[ETCH_BRANCH_LEN];

	etch_branch_nop(image);
	if (same_bytes(have, image, sizeof(image)))
		return 0;
	return etch_branch_image(field_target(&x->site), field_target(&x->target), image) &&
	               same_bytes(have, image, sizeof(image))
	           ? 1
	           : -1;
}

/* Plans the change of a marker's instruction to a jump (`on`) or a nop. Returns 0 or an etch_error. */
static int mark_plan(struct txn *t, const struct etch_mark_site *x, int on)
{
	uint64_t site = field_target(&x->site);
	uint8_t have[ETCH_BRANCH_LEN], want[ETCH_BRANCH_LEN];
	int state;

	memcpy(have, (const void *)(uintptr_t)site, sizeof(have));
	state = mark_state(x, have);
	if (state < 0)
		return have[0] == 0xcc ? ETCH_EBUSY : ETCH_ECODE;
	if (state == on)
		return 0;
	if (on && !etch_branch_image(site, field_target(&x->target), want))
		return ETCH_EFORMAT;
	if (!on)
		etch_branch_nop(want);
	return txn_site(t, site, sizeof(want), bytes_value(have, sizeof(have)), bytes_value(want, sizeof(want)), 0);
}

/* Makes the instructions agree with the lists. */
static int marks_follow(struct module *only, const char *pattern)
{
	struct mark_iterator e = {.only = only};
	const struct etch_mark_site *x;
	struct txn t;
	int err = 0;

	txn_begin(&t);
	while (!err && (x = mark_next(&e)))
		if (mark_matches(pattern, etch_mark_name(&x->mark)))
			err = mark_plan(&t, x, head_of(x)->calls != NULL);
	if (!err)
		err = txn_commit(&t);
	txn_end(&t);
	return err;
}

/* ---- attaching ----------------------------------------------------------------------- */

static struct watch *watch_new(const char *pattern, etch_mark_fn *fn, void *data)
{
	struct watch *w = free_watches;

	if (!w) {
		struct watch *more = sys_map(ETCH_PAGE, 0);

		if (!more)
			return NULL;
		for (size_t i = 0; i < ETCH_PAGE / sizeof(*more); i++) {
			more[i].next = free_watches;
			free_watches = &more[i];
		}
		w = free_watches;
	}
	free_watches = w->next;
	*w = (struct watch){.fn = fn, .data = data};
	memcpy(w->pattern, pattern, strlen(pattern) + 1);
	return w;
}

/* Adds to the end of the list, because functions are called in the order of their attachment. */
static void watch_add(struct watch *w)
{
	struct watch **p = &watches;

	while (*p)
		p = &(*p)->next;
	*p = w;
}

static void watch_remove(struct watch *w)
{
	struct watch **p = &watches;

	while (*p != w)
		p = &(*p)->next;
	*p = w->next;
	w->next = free_watches;
	free_watches = w;
}

/* Waits until no thread uses a list that was replaced before, and unmaps these lists. A callback does not wait: its
 * own list is in use, and another callback may be waiting for this one. */
static void retired_wait(void)
{
	struct lists *mine, *next;

	if (readers_self())
		return;
	if (etch_lock())
		return;
	mine = retired;
	retired = NULL;
	etch_unlock();
	readers_wait();
	for (; mine; mine = next) {
		next = mine->next;
		sys_munmap(mine, mine->size);
	}
}

/* ---- modules ---------------------------------------------------------------------------- */

static void marks_load(struct module *m)
{
	struct lists *lists;
	long sites;

	if (!watches || module_check(m) || lists_make(m, "*", &lists, &sites))
		return;
	lists_publish(m, "*");
	if (marks_follow(m, "*"))
		lists_publish(m, "*");
	lists_drop(m);
}

static void marks_unload(struct module *m)
{
	struct mark_iterator e = {.only = m};
	const struct etch_mark_site *x;

	while ((x = mark_next(&e))) {
		struct etch_mark_head *h = head_of(x);

		calls_drop(h->calls);
		h->calls = NULL;
	}
}

static const struct marks_calls calls_of_modules = {marks_load, marks_unload, readers_fork};

/* ---- interface --------------------------------------------------------------------------- */

static int is_pattern(const char *pattern) { return pattern && strlen(pattern) < PATTERN_MAX; }

ETCH_API long(etch_mark_attach)(const char *pattern, etch_mark_fn *fn, void *data)
{
	struct lists *lists;
	struct watch *w;
	long sites = 0;
	int err;

	if (!is_pattern(pattern) || !fn)
		return -ETCH_EINVAL;
	err = etch_lock();
	if (err)
		return -err;
	for (struct module *m = module_list; m; m = m->next)
		module_check(m);
	w = watch_new(pattern, fn, data);
	if (!w) {
		etch_unlock();
		return -ETCH_ENOMEM;
	}
	watch_add(w);
	marks_calls = &calls_of_modules;
	err = lists_make(NULL, pattern, &lists, &sites);
	if (!err) {
		lists_publish(NULL, pattern);
		err = marks_follow(NULL, pattern);
		if (err)
			lists_publish(NULL, pattern);
		lists_drop(NULL);
	}
	if (err)
		watch_remove(w);
	etch_unlock();
	retired_wait();
	return err ? -err : sites;
}

ETCH_API long(etch_mark_detach)(const char *pattern, etch_mark_fn *fn, void *data)
{
	struct lists *lists;
	struct watch *w;
	long sites;
	int err;

	if (!is_pattern(pattern))
		return -ETCH_EINVAL;
	err = etch_lock();
	if (err)
		return -err;
	for (w = watches; w && (w->fn != fn || w->data != data || strcmp(w->pattern, pattern) != 0); w = w->next)
		;
	if (!w) {
		etch_unlock();
		return -ETCH_EINVAL;
	}
	watch_remove(w);
	err = lists_make(NULL, pattern, &lists, &sites);
	if (err) { /* without memory for shorter lists, the function stays attached */
		etch_unlock();
		return -err;
	}
	lists_publish(NULL, pattern);
	marks_follow(NULL, pattern);
	lists_drop(NULL);
	etch_unlock();
	retired_wait();
	return 0;
}

ETCH_API long etch_mark_each(void (*see)(void *arg, const struct etch_mark *mark, int on), void *arg)
{
	struct mark_iterator e = {0};
	const struct etch_mark_site *x;
	long n = 0;
	int err;

	err = etch_lock();
	if (err)
		return -err;
	for (struct module *m = module_list; m; m = m->next)
		module_check(m);
	for (; (x = mark_next(&e)); n++)
		if (see)
			see(arg, &x->mark, head_of(x)->calls != NULL);
	etch_unlock();
	return n;
}
