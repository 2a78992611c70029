/* SPDX-License-Identifier: MIT */
/* rearm.c: etch_sync, etch_seal and etch_release. */
#include "patch/parts.h"

PART_NEEDS(ETCH_PART_OBJECTS_SYMBOL);

static uint64_t address(const void *p) { return (uint64_t)(uintptr_t)p; }

/*
 * The objects [*first, *end) of *m that overlap a range, for sync and release. Empty, with result
 * 0, if the range may be set but has no known objects to arm.
 */
static int range_objects(uint64_t at, uint64_t size, struct module **m, size_t *first, size_t *end)
{
	int err;

	*first = *end = 0;
	*m = module_at(at);
	if (*m && !(*m)->bad && module_object(*m, at)) {
		/* One object, or several: the last byte of the range must also be in an object. */
		if (module_at(at + size - 1) != *m || !module_object(*m, at + size - 1))
			return ETCH_EINVAL;
		err = module_check(*m);
		*first = module_object_from(*m, at);
		*end = module_object_from(*m, at + size - 1) + 1;
		module_fields_all(*m, first, end);
		return err;
	}
	return range_check(at, size);
}

enum rearm { RELEASE, SYNC, SEAL };

/*
 * Does a field or a dense object stay as it is when etch_sync arms its variable? Code stores to it later; or, where the
 * call does not come from the variable's own module, perhaps later: the link step, and nobody without it, knows which
 * code runs after the calls in its file.
 */
static int is_kept(const struct module *m, const struct object *o, int own)
{
	return (module_has_fields(m, o) || module_is_dense(m, o)) &&
	       (o->flags & (own && m->linked ? OBJECT_KEPT : OBJECT_KEPT | OBJECT_FACT));
}

/* Will all pages of an object be read-only? */
static int is_guarded(const struct module *m, const struct object *o)
{
	uint64_t page = PAGE_OF(o->addr);

	for (; page < o->addr + o->size; page += ETCH_PAGE)
		if (!module_page_wanted(m, page))
			return 0;
	return 1;
}

/* Takes back what a range was to be armed for, where a page stays writable that code stores to. Returns for how many.
 */
static size_t exposed_leave(struct module *m, size_t first, size_t end, int own)
{
	size_t n = 0, was, i;

	do {
		was = n;
		for (i = first; i < end; i++) {
			struct object *o = &m->object[i];

			if (!(o->flags & OBJECT_CHANGING) || !module_needs_guard(m, o, own) || is_guarded(m, o))
				continue;
			o->flags ^= OBJECT_ARMED | OBJECT_CHANGING;
			n++;
		}
	} while (n != was); /* it may reach into the next page */
	return n;
}

/* Releases, with a range, the objects that its pages have guarded. Returns how many; extends the range to them. */
static size_t exposed_release(struct module *m, size_t *first, size_t *end)
{
	size_t n = 0, was, i;

	do {
		was = n;
		module_page_mates(m, first, end);
		for (i = *first; i < *end; i++) {
			struct object *o = &m->object[i];

			if (!(o->flags & OBJECT_ARMED) || !module_needs_guard(m, o, 1) || is_guarded(m, o))
				continue;
			o->flags ^= OBJECT_ARMED | OBJECT_CHANGING;
			n++;
		}
	} while (n != was);
	return n;
}

/* Arms or disarms the objects in a range. The flags that determine page protection are changed
 * first; objects that already were in the new state are left out when this is undone. */
static int range_rearm(const void *p, size_t size, enum rearm how, const void *caller)
{
	int arm = how != RELEASE;
	size_t first, end, i, n = 0;
	uint64_t from, to;
	struct module *m;
	struct txn t;
	int err, own;

	if (!p || !size || address(p) + size < size)
		return ETCH_EINVAL;
	etch_lock();
	err = range_objects(address(p), size, &m, &first, &end);
	if (!err && how == SEAL && !sync_alone())
		err = ETCH_ETHREADS;
	if (err || first == end) {
		etch_unlock();
		return err;
	}
	own = module_at(address(caller)) == m;
	for (i = first; i < end; i++)
		if (!!(m->object[i].flags & OBJECT_ARMED) != arm && !(how == SYNC && is_kept(m, &m->object[i], own))) {
			m->object[i].flags ^= OBJECT_ARMED | OBJECT_CHANGING;
			n++;
		}
	if (how == SYNC)
		n -= exposed_leave(m, first, end, own);
	if (how == RELEASE && n)
		n += exposed_release(m, &first, &end);
	from = m->object[first].addr;
	to = m->object[end - 1].addr + m->object[end - 1].size;
	for (i = first; how == SEAL && i < end; i++)
		if (!(m->object[i].flags & OBJECT_SEALED) && (m->object[i].flags & OBJECT_ARMED))
			m->object[i].flags |= OBJECT_SEALED | OBJECT_SEALING;

	txn_begin(&t);
	/* To arm: no plain store may happen between reading memory and the patch. To disarm:
	 * memory must be writable before the first site is a load. */
	if (n)
		err = module_protect(m, from, to);
	for (i = first; i < end && !err; i++)
		if (!(m->object[i].flags & OBJECT_ARMED) == !arm)
			err = txn_plan_object(&t, &m->object[i], arm ? PLAN_ARM : PLAN_LOAD, NULL);
	if (!err)
		err = txn_commit(&t);
	txn_end(&t);
	for (i = first; i < end; i++) {
		if ((m->object[i].flags & OBJECT_CHANGING) && err)
			m->object[i].flags ^= OBJECT_ARMED;
		if (err ? m->object[i].flags & OBJECT_SEALING : how == RELEASE && !(m->object[i].flags & OBJECT_ARMED))
			m->object[i].flags &= ~OBJECT_SEALED;
		m->object[i].flags &= ~(OBJECT_CHANGING | OBJECT_SEALING);
	}
	if (n && err)
		module_protect(m, from, to);
	etch_unlock();
	return err;
}

ETCH_API int etch_sync_bytes(const void *object, size_t size)
{
	return range_rearm(object, size, SYNC, __builtin_return_address(0));
}

ETCH_API int etch_seal_bytes(const void *object, size_t size)
{
	return range_rearm(object, size, SEAL, __builtin_return_address(0));
}

ETCH_API int etch_release_bytes(const void *object, size_t size)
{
	return range_rearm(object, size, RELEASE, __builtin_return_address(0));
}
