/* SPDX-License-Identifier: MIT */
/*
 * imv.c: the functions of etch/imv.h. Each one combines module.c (which object is at an
 * address) and patch.c (the transaction).
 */
#include <string.h>

#include "patch/static_branch.h"
#include "patch/patch.h"

ETCH_API const char *etch_strerror(int error)
{
	switch (error) {
	case ETCH_OK: return "no error";
	case ETCH_EINVAL: return "null pointer, size 0, or a range past the end of its object";
	case ETCH_ENOTETCHED: return "no etched object of a loaded module holds this address";
	case ETCH_EBUSY: return "a site, or a page to be swapped, holds a breakpoint (of a debugger or uprobe)";
	case ETCH_ECODE: return "a site holds bytes that neither etch nor the compiler put there";
	case ETCH_EPERM: return "the system refuses to change the protection of text or data";
	case ETCH_ENOSYNC: return "membarrier cannot synchronize the other threads";
	case ETCH_ENOMEM: return "out of memory for the work list, or out of mappings";
	case ETCH_EFORMAT: return "a table of a loaded module is malformed or of another version";
	case ETCH_ETHREADS: return "a sealed site can only be changed while the process has one thread";
	default: return "unknown etch error";
	}
}

static uint64_t address(const void *p) { return (uint64_t)(uintptr_t)p; }

static int is_part(const struct module *m, const struct object *o) { return m->obj[o->record].flags & ETCH_OBJ_PART; }

/* May [at, at+size) be set? It must be in one object, or in an etched section whose objects are
 * unknown (not processed by the tool), or in a copy of an object. */
static int range_check(uint64_t at, uint64_t size)
{
	struct module *m = module_at(at);
	const struct object *o;
	int copied;

	if (m && m->bad)
		return ETCH_EFORMAT;
	if (m) {
		size_t i = module_object_from(m, at);

		o = i < m->object_count ? &m->object[i] : NULL;
		if (o && o->addr <= at) {
			/* In a file stripped of symbols an object has several parts, and a variable may have fields. */
			while (size > o->addr + o->size - at && ++i < m->object_count && o[1].addr == o->addr + o->size &&
			       ((o[1].flags & OBJECT_FIELD) || (is_part(m, o) && is_part(m, &o[1]))))
				o++;
			return size <= o->addr + o->size - at ? 0 : ETCH_EINVAL;
		}
		for (int k = 0; k < 2; k++)
			if (at >= m->etched[k].start && at < m->etched[k].stop)
				return size <= m->etched[k].stop - at && (!o || size <= o->addr - at) ? 0 : ETCH_EINVAL;
	}
	copied = module_copied(at, size);
	return copied > 0 ? 0 : copied < 0 ? ETCH_EINVAL : ETCH_ENOTETCHED;
}

ETCH_API int etch_set_batch(const struct etch_change *changes, size_t count)
{
	struct txn t;
	int err = 0;
	size_t i;

	if (!count)
		return 0;
	if (!changes)
		return ETCH_EINVAL;
	for (i = 0; i < count; i++)
		if (!changes[i].object || !changes[i].value || !changes[i].size ||
		    address(changes[i].object) + changes[i].size < changes[i].size)
			return ETCH_EINVAL;

	/* The caller's memory is read before the lock is taken: if that faults and the program
	 * survives, the lock is not left held. */
	txn_begin(&t);
	for (i = 0; i < count && !err; i++)
		err = txn_store(&t, address(changes[i].object), changes[i].value, changes[i].size);

	etch_lock();
	for (i = 0; i < count && !err; i++)
		err = range_check(address(changes[i].object), changes[i].size);
	if (!err)
		err = txn_plan_stores(&t);
	if (!err)
		err = txn_commit(&t);
	txn_end(&t);
	etch_unlock();
	return err;
}

ETCH_API int etch_set_bytes(void *object, const void *value, size_t size)
{
	struct etch_change c = {object, value, size};

	return etch_set_batch(&c, 1);
}

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
 * Does a field stay as it is when etch_sync arms its variable? Code stores to it later; or, where the call does not
 * come from the variable's own module, perhaps later: the link step knows which code runs after the calls in its file.
 */
static int is_kept(const struct module *m, const struct object *o, int own)
{
	return module_has_fields(m, o) && (o->flags & (own ? OBJECT_KEPT : OBJECT_KEPT | OBJECT_FACT));
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
	from = m->object[first].addr;
	to = m->object[end - 1].addr + m->object[end - 1].size;
	for (i = first; i < end; i++)
		if (!!(m->object[i].flags & OBJECT_ARMED) != arm && !(how == SYNC && is_kept(m, &m->object[i], own))) {
			m->object[i].flags ^= OBJECT_ARMED | OBJECT_CHANGING;
			n++;
		}
	for (i = first; how == SEAL && i < end; i++)
		if (!(m->object[i].flags & OBJECT_SEALED) && (m->object[i].flags & OBJECT_ARMED))
			m->object[i].flags |= OBJECT_SEALED | OBJECT_SEALING;

	txn_begin(&t);
	/* To arm: no plain store may happen between reading memory and the patch. To disarm:
	 * memory must be writable before the first site is a load. */
	if (n)
		err = module_protect(m, from, to);
	for (i = first; i < end && !err; i++)
		if (!arm || (m->object[i].flags & OBJECT_ARMED))
			err = txn_plan_object(&t, &m->object[i], arm ? PLAN_ARM : PLAN_LOAD, NULL);
	if (!err)
		err = txn_commit(&t);
	txn_end(&t);
	for (i = first; i < end; i++) {
		if ((m->object[i].flags & OBJECT_CHANGING) && err)
			m->object[i].flags ^= OBJECT_ARMED;
		if (err ? m->object[i].flags & OBJECT_SEALING : how == RELEASE)
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

/* ---- inspection ----------------------------------------------------------------- */

/* Can the memory behind a site be read? A GOT slot may hold null (a weak symbol), or the address
 * of a variable of a module that is not registered. */
static int object_readable(const struct etch_imv *e, uint64_t object)
{
	const struct module *owner;

	if (!(e->flags & ETCH_IMV_GOT))
		return 1;
	owner = module_at(object);
	return owner && !owner->bad && image_segment(&owner->image, object, site_size(e));
}

static int site_is_live(const struct etch_imv *e) { return etch_site_is_live(site_address(e), etch_imv_len(e)); }

static int site_is_swapped(const struct etch_imv *e)
{
	return !site_is_live(e) && text_swappable(site_address(e), etch_imv_len(e));
}

/* May this site hold anything other than its load? */
static int site_may_change(const struct etch_imv *e, uint64_t object)
{
	const struct module *m;
	const struct object *o;

	if (site_is_live(e) || site_is_swapped(e))
		return 1;
	m = module_at(object);
	o = m ? module_object(m, object) : NULL;
	return o && (o->flags & OBJECT_SEALED);
}

/* Are the other bytes of a site correct whose first byte is a breakpoint? */
static int busy_agrees(const struct etch_imv *e, uint64_t object)
{
	uint8_t now[16];

	memcpy(now, (const void *)(uintptr_t)site_address(e), etch_imv_len(e));
	for (unsigned i = 0; i < 256; i++) {
		enum site_state state;

		now[0] = (uint8_t)i;
		state = i == 0xcc ? SITE_BUSY : site_state_of(e, object, now);
		if (state == SITE_LOAD || ((state == SITE_IMMEDIATE || state == SITE_INLINE) && site_may_change(e, object)))
			return 1;
	}
	return 0;
}

static int site_differs(const struct etch_imv *e, uint64_t object)
{
	switch (site_state(e, object)) {
	case SITE_LOAD: return 0;
	case SITE_IMMEDIATE:
	case SITE_INLINE: return !site_may_change(e, object);
	case SITE_BUSY: return !busy_agrees(e, object);
	default: return 1;
	}
}

static long verify_sites(const struct sites *s, void (*report)(void *, const void *, const void *), void *arg)
{
	long differ = 0;

	for (size_t i = 0; i < s->count; i++) {
		const struct etch_imv *e = &s->entry[i];
		uint64_t object;

		if (!entry_is_site(e))
			continue;
		object = site_object(e);
		if (!object_readable(e, object) || !site_differs(e, object))
			continue;
		differ++;
		if (report)
			report(arg, (const void *)(uintptr_t)site_address(e), (const void *)(uintptr_t)object);
	}
	return differ;
}

ETCH_API long etch_verify(void (*report)(void *arg, const void *site, const void *object), void *arg)
{
	long differ = 0;
	int err = 0;

	etch_lock();
	for (struct module *m = module_list; m; m = m->next) {
		if (module_check(m)) {
			err = ETCH_EFORMAT;
			continue;
		}
		for (int kind = 0; kind < SITES_KINDS; kind++)
			differ += verify_sites(&m->sites[kind], report, arg);
		differ += inlines_verify(m, report, arg) + branches_verify(m, report, arg);
	}
	etch_unlock();
	return err ? -err : differ;
}

static enum site_state site_now(const struct etch_imv *e)
{
	uint64_t object = site_object(e);

	return object_readable(e, object) ? site_state(e, object) : SITE_LOAD;
}

/* Would this site, a load now, be an immediate if its instruction could hold the value? */
static int is_unfit(const struct etch_imv *e, uint64_t object)
{
	const struct module *m = module_at(object);
	const struct object *o = m ? module_object(m, object) : NULL;
	uint8_t out[16];

	return o && (o->flags & OBJECT_ARMED) && object_readable(e, object) && site_may_change(e, object) &&
	       !immediate_form(e, memory_value(object, site_size(e)), out);
}

static void info_load(const struct etch_imv *e, struct etch_info *info)
{
	enum site_state state = site_now(e);

	info->sites++;
	if (state == SITE_IMMEDIATE || state == SITE_STALE)
		info->armed++;
	else
		info->loads++;
	if (state == SITE_LOAD)
		info->unfit += (unsigned long)is_unfit(e, site_object(e));
	if (site_is_swapped(e))
		info->by_swap++;
	else if (!site_is_live(e))
		info->fixed++;
}

static void info_call(const struct etch_imv *e, struct etch_info *info)
{
	enum site_state state = site_now(e);
	uint8_t bytes[16];

	memcpy(bytes, (const void *)(uintptr_t)site_address(e), etch_imv_len(e));
	info->calls++;
	if (state == SITE_INLINE || (state == SITE_STALE && !pv_some_direct(e, bytes)))
		info->calls_inline++;
	else if (state == SITE_IMMEDIATE || state == SITE_STALE)
		info->calls_direct++;
	else
		info->calls_indirect++;
	if (site_is_swapped(e))
		info->calls_by_swap++;
	else if (!site_is_live(e))
		info->calls_fixed++;
}

/* The ops table of libetch's own copies is not counted: the counts are for the program's tables. */
static int is_own(const struct module *m)
{
	return m->object_count == 1 && module_own_table(m->object[0].addr) &&
	       m->etched[0].stop - m->etched[0].start <= ETCH_PAGE && m->etched[1].start == m->etched[1].stop;
}

static void info_object(const struct module *m, const struct object *o, struct etch_info *info)
{
	const struct object *last = o;

	if (module_has_fields(m, o)) {
		info->fields++;
		info->fields_armed += !!(o->flags & OBJECT_ARMED);
	}
	if (o->flags & OBJECT_FIELD)
		return;
	info->objects++;
	while (last->flags & OBJECT_ARMED && last + 1 < m->object + m->object_count && (last[1].flags & OBJECT_FIELD))
		last++;
	info->armed_objects += !!(last->flags & OBJECT_ARMED);
	info->sealed_objects += !!(o->flags & OBJECT_SEALED);
}

static void info_module(const struct module *m, struct etch_info *info)
{
	for (int kind = 0; kind < SITES_KINDS; kind++)
		for (size_t i = 0; i < m->sites[kind].count; i++) {
			const struct etch_imv *e = &m->sites[kind].entry[i];

			if (entry_is_site(e) && !module_own_table(site_object(e)))
				(kind == SITES_CALL ? info_call : info_load)(e, info);
		}
	inlines_info(m, info);
	branches_info(m, info);
	marks_info(m, info);
	for (size_t i = 0; i < m->object_count; i++) {
		if (module_own_table(m->object[i].addr))
			continue;
		info_object(m, &m->object[i], info);
	}
	for (size_t i = 0; i < m->pages; i++)
		if (!module_own_table(m->page + i * ETCH_PAGE))
			info->readonly_pages += m->readonly[i / 8] >> (i % 8) & 1;
}

ETCH_API int etch_info(struct etch_info *info)
{
	struct etch_info now = {.size = sizeof(now)};
	int err = 0;

	if (!info || info->size < sizeof(size_t))
		return ETCH_EINVAL;
	etch_lock();
	for (struct module *m = module_list; m; m = m->next) {
		if (module_check(m)) {
			err = ETCH_EFORMAT;
			continue;
		}
		now.modules += !is_own(m);
		info_module(m, &now);
	}
	now.patched_at_start = module_patched;
	etch_unlock();
	/* A caller with an older header gets the fields that it has; one with a newer header gets
	 * zeros in the rest. */
	if (info->size > sizeof(now))
		memset((char *)info + sizeof(now), 0, info->size - sizeof(now));
	now.size = info->size;
	memcpy(info, &now, info->size < sizeof(now) ? info->size : sizeof(now));
	return err;
}
