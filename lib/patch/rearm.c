/* SPDX-License-Identifier: MIT */
/* rearm.c: etch_sync, etch_seal and etch_release, for some bytes, a module, and all modules; and etch_tick. */
#include "patch/give_up.h"
#include "patch/parts.h"

PART_NEEDS(ETCH_PART_OBJECTS_SYMBOL);

static uint64_t address(const void *p) { return (uint64_t)(uintptr_t)p; }

/*
 * Finds the objects [*first, *end) of *m that overlap a range, for sync and release. They are none, with result 0, if
 * the range may be set but has no known objects to arm.
 */
static int range_objects(uint64_t at, uint64_t size, struct module **m, size_t *first, size_t *end)
{
	int err;

	*first = *end = 0;
	*m = module_at(at);
	if (*m && !(*m)->bad && module_object(*m, at)) {
		/* The range may overlap one object, or several: its last byte must also be in an object. */
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

/* Does code store to the object later? If the call does not come from the object's own module, the code may store
 * later, too: only the link step knows which code runs after the calls in its file. */
static int is_stored_later(const struct module *m, const struct object *o, int own)
{
	return o->flags & (own && m->linked ? OBJECT_KEPT : OBJECT_KEPT | OBJECT_FACT);
}

/*
 * Does etch_sync leave an object as it is when it arms its variable? It leaves a field or a dense object if code
 * stores to it later. Any other object is guarded by its pages, so that a store gives up its constants, unless the
 * fault does not come to libetch's handler. An ops table is armed in any case: its address escapes in nearly every
 * program, and a store to it is meant to end the program. An object that the kernel stores to is left, because no
 * handler sees that a system call fails. And an object that was given up, or set too often, is held back for a while.
 */
static int is_left(const struct module *m, struct object *o, int own, int guards)
{
	if (is_held_back(m, o) || is_set_often(m, o) || (m->obj[o->record].more & ETCH_OBJ_KERNEL))
		return 1;
	return is_stored_later(m, o, own) &&
	       (module_has_fields(m, o) || module_is_dense(m, o) || (!guards && !is_called_through(m, o)));
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

/* Releases the objects around a range that were armed only because all their pages were read-only. Returns their
 * number, and extends the range to them. */
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

/* A request: what is to be done, and with which objects [first, end) of a module. */
struct request {
	struct module *m;
	size_t first, end;
	/* SEAL: objects that lie in here whole, and ops tables, are sealed; other objects are armed as by SYNC. */
	uint64_t at, stop;
	enum rearm how;
	int own;       /* the module's own code asks */
	int only_held; /* only objects that have OBJECT_HELD */
};

static int is_sealed_by(const struct request *r, const struct object *o)
{
	return r->how == SEAL && ((o->addr >= r->at && o->addr + o->size <= r->stop) || is_called_through(r->m, o));
}

/* Takes back the arming of objects that need their pages read-only, where a page stays writable. Returns their
 * number. */
static size_t exposed_leave(const struct request *r)
{
	struct module *m = r->m;
	size_t n = 0, was, i;

	do {
		was = n;
		for (i = r->first; i < r->end; i++) {
			struct object *o = &m->object[i];

			if (!(o->flags & OBJECT_CHANGING) || is_sealed_by(r, o) || !module_needs_guard(m, o, r->own) ||
			    is_guarded(m, o))
				continue;
			o->flags ^= OBJECT_ARMED | OBJECT_CHANGING;
			o->flags |= OBJECT_WANTED;
			n++;
		}
	} while (n != was); /* an object that is taken back may reach into the next page */
	return n;
}

/* Extends a request to the objects that share a page with its objects, if one of them is to be armed together with
 * the page. */
static void mates_add(struct request *r)
{
	size_t first = r->first, end = r->end;

	page_mates_all(r->m, &first, &end);
	for (size_t i = first; i < end; i++)
		if (r->m->object[i].flags & OBJECT_HELD) {
			r->first = first;
			r->end = end;
			return;
		}
}

/* Marks the objects that change; the flags that determine the protection of pages come first. Returns the number of
 * these objects. */
static size_t request_mark(struct request *r)
{
	int arm = r->how != RELEASE, guards = arm && trap_guards();
	size_t n = 0, first = r->first, end = r->end;

	if (r->how == SYNC)
		mates_add(r);
	for (size_t i = r->first; i < r->end; i++) {
		struct object *o = &r->m->object[i];

		if (!!(o->flags & OBJECT_ARMED) == arm)
			continue;
		if ((r->only_held || i < first || i >= end) && !(o->flags & OBJECT_HELD))
			continue;
		if (arm && !is_sealed_by(r, o) && is_left(r->m, o, r->own, guards))
			continue;
		o->flags ^= OBJECT_ARMED | OBJECT_CHANGING;
		n++;
	}
	if (arm)
		n -= exposed_leave(r);
	if (r->how == RELEASE && n)
		n += exposed_release(r->m, &r->first, &r->end);
	for (size_t i = r->first; i < r->end; i++) {
		struct object *o = &r->m->object[i];

		if (is_sealed_by(r, o) && !(o->flags & OBJECT_SEALED) && (o->flags & OBJECT_ARMED))
			o->flags |= OBJECT_SEALED | OBJECT_SEALING;
	}
	return n;
}

/* Removes the marks; after an error the objects are as before. */
static void request_unmark(struct request *r, int err)
{
	for (size_t i = r->first; i < r->end; i++) {
		struct object *o = &r->m->object[i];

		if ((o->flags & OBJECT_CHANGING) && err)
			o->flags ^= OBJECT_ARMED;
		if (err ? o->flags & OBJECT_SEALING : r->how == RELEASE && !(o->flags & OBJECT_ARMED))
			o->flags &= ~OBJECT_SEALED;
		if (!err && ((o->flags & OBJECT_CHANGING) || r->how == RELEASE))
			o->flags &= ~OBJECT_HELD; /* armed again, or released by the program */
		o->flags &= ~(OBJECT_CHANGING | OBJECT_SEALING);
	}
}

/* Arms or disarms the objects of a request. If this is undone, objects that were already in the new state are left
 * out. */
static int rearm(struct request *r)
{
	int arm = r->how != RELEASE, err = 0, opened;
	size_t n = request_mark(r);
	uint64_t from = r->m->object[r->first].addr, to = r->m->object[r->end - 1].addr + r->m->object[r->end - 1].size;
	struct txn t;

	txn_begin(&t);
	/* When it arms, no plain store may happen between reading memory and the patch. When it disarms, no store may
	 * happen before the last site is a load. */
	if (n && arm)
		err = module_protect(r->m, from, to);
	for (size_t i = r->first; i < r->end && !err; i++)
		if (!(r->m->object[i].flags & OBJECT_ARMED) == !arm)
			err = txn_plan_object(&t, &r->m->object[i], arm ? PLAN_ARM : PLAN_LOAD, NULL);
	if (!err)
		err = txn_commit(&t);
	txn_end(&t);
	request_unmark(r, err);
	if (n && (err || !arm)) {
		opened = module_protect(r->m, from, to);
		err = err ? err : opened;
	}
	return err;
}

int object_release(struct module *m, size_t object)
{
	return rearm(&(struct request){.m = m, .first = object, .end = object + 1, .how = RELEASE, .own = 1});
}

void page_rearm(struct module *m, uint64_t at)
{
	struct request r = {.m = m, .how = SYNC, .own = 1, .only_held = 1, .first = module_object_from(m, PAGE_OF(at))};

	for (r.end = r.first; r.end < m->object_count && m->object[r.end].addr < PAGE_OF(at) + ETCH_PAGE; r.end++)
		;
	if (r.first < r.end)
		(void)rearm(&r); /* objects that cannot be armed stay loads */
}

static int range_rearm(const void *p, size_t size, enum rearm how, const void *caller)
{
	struct request r = {.at = address(p), .stop = address(p) + size, .how = how};
	int err;

	if (!p || !size || r.stop < r.at)
		return ETCH_EINVAL;
	err = etch_lock();
	if (err)
		return err;
	err = range_objects(r.at, size, &r.m, &r.first, &r.end);
	if (!err && how == SEAL && !sync_alone())
		err = ETCH_ETHREADS;
	if (!err && r.first < r.end) {
		r.own = module_at(address(caller)) == r.m;
		err = rearm(&r);
	}
	etch_unlock();
	return err;
}

/* Arms the objects of a module: all at once, or, if that is impossible, each variable that can be armed. Returns the
 * first error. */
static int module_sync(struct module *m, int own)
{
	struct request r = {.m = m, .how = SYNC, .own = own, .end = m->object_count};
	int err = module_check(m), one;

	if (err || !r.end || !rearm(&r))
		return err;
	for (size_t i = 0; i < m->object_count; i = r.end) {
		r = (struct request){.m = m, .how = SYNC, .own = own, .first = i, .end = i + 1};
		module_fields_all(m, &r.first, &r.end);
		one = rearm(&r);
		err = err ? err : one;
	}
	return err;
}

static int modules_sync(const void *in, const void *caller)
{
	struct module *mine, *only;
	int err = etch_lock(), one;

	if (err)
		return err;
	mine = module_at(address(caller));
	only = in ? module_at(address(in)) : NULL;
	if (in && !only)
		err = ETCH_ENOTETCHED;
	for (struct module *m = module_list; m && !(in && !only); m = m->next)
		if (!only || m == only) {
			one = module_sync(m, m == mine);
			err = err ? err : one;
		}
	etch_unlock();
	return err;
}

/* Arms the objects of a module that are no longer held back, page by page. Returns the first error. */
static int module_tick(struct module *m)
{
	struct request r;
	int err = 0, one;

	for (size_t i = 0; i < m->object_count; i++) {
		const struct object *o = &m->object[i];

		if (!(o->flags & OBJECT_HELD) || is_held_back(m, o) || is_set_often(m, o))
			continue;
		r = (struct request){.m = m, .how = SYNC, .own = 1, .only_held = 1, .first = i, .end = i + 1};
		one = rearm(&r);
		err = err ? err : one;
		i = r.end - 1; /* continues after the objects that share its page */
	}
	return err;
}

ETCH_API int etch_tick(void)
{
	int err, one;

	if (!hold_is_over())
		return 0;
	err = etch_lock();
	if (err)
		return err;
	for (struct module *m = module_list; m; m = m->next)
		if (!m->bad) {
			one = module_tick(m);
			err = err ? err : one;
		}
	hold_ends_find();
	etch_unlock();
	return err;
}

ETCH_API int etch_sync_all(void) { return modules_sync(NULL, __builtin_return_address(0)); }

ETCH_API int etch_sync_module(const void *in) { return modules_sync(in, __builtin_return_address(0)); }

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
