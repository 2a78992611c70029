/* SPDX-License-Identifier: MIT */
/*
 * imv.c: the sets of etch/imv.h. Each one combines module.c (which object is at an address) and patch.c (the
 * transaction). rearm.c has etch_sync and the like, inspect.c what counts and compares: a static program links what it
 * calls.
 */
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

int range_check(uint64_t at, uint64_t size)
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
		for (int k = 0; k < 3; k++)
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
