/* SPDX-License-Identifier: MIT */
/*
 * imv.c: sets. Each set combines module.c (which object is at an address) and patch.c (the transaction). set.c has
 * the sets of any object, rearm.c etch_sync and the like, and inspect.c the functions that count and compare: a
 * static program links what it calls.
 */
#include "patch/parts.h"

static uint64_t address(const void *p) { return (uint64_t)(uintptr_t)p; }

static int is_part(const struct module *m, const struct object *o) { return m->obj[o->record].flags & ETCH_OBJ_PART; }

/* Does what range_check() does, for one module. Returns ETCH_ENOTETCHED if `at` is in none of its objects and etched
 * sections. */
static int module_range_check(struct module *m, uint64_t at, uint64_t size)
{
	size_t i = module_object_from(m, at);
	const struct object *o = i < m->object_count ? &m->object[i] : NULL;

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
	return ETCH_ENOTETCHED;
}

int range_check(uint64_t at, uint64_t size)
{
	struct module *m = module_at(at);
	int copied = 0;

	if (m && m->bad)
		return ETCH_EFORMAT;
	if (m) {
		int err = module_range_check(m, at, size);

		if (err != ETCH_ENOTETCHED)
			return err;
	}
	if (&part_others)
		copied = part_others.copied(at, size);
	if (copied > 0)
		return 0;
	return copied < 0 ? ETCH_EINVAL : ETCH_ENOTETCHED;
}

static int store(struct txn *t, uint64_t at, const uint8_t *from, size_t size)
{
	int err = 0;

	while (size && !err) {
		unsigned skip = at & 7, n = 8 - skip;
		uint64_t bytes = 0;

		if (n > size)
			n = (unsigned)size;
		memcpy(&bytes, from, n);
		err = list_add(&t->data, at - skip, 0, bytes << (8 * skip), byte_mask(n) << (8 * skip), 0);
		at += n;
		from += n;
		size -= n;
	}
	return err;
}

/* Used if the system refuses to replace pages of variables, or too many are mappings of their own: the objects on the
 * pages become loads, the values are stored, and the objects are armed again. */
static int set_by_loads(struct txn *t, int refused)
{
	int err;

	list_end(&t->text); /* there is only one list of text at a time */
	t->text = (struct list){0};
	if (part_objects.pages_release(&t->data))
		return refused;
	t->sites = 0;
	err = txn_plan_stores(t);
	if (!err)
		err = txn_commit(t);
	part_objects.pages_rearm(&t->data);
	return err;
}

/* Are the arguments of changes sound in themselves, whatever is at their addresses? */
static int changes_valid(const struct etch_change *changes, size_t count)
{
	if (!changes)
		return 0;
	for (size_t i = 0; i < count; i++)
		if (!changes[i].object || !changes[i].value || !changes[i].size ||
		    address(changes[i].object) + changes[i].size < changes[i].size)
			return 0;
	return 1;
}

int set_changes(const struct etch_change *changes, size_t count, int (*in_order)(struct list *))
{
	struct txn t;
	uint64_t changed;
	int err = 0, held = 0;
	size_t i;

	if (!count)
		return 0;
	if (!changes_valid(changes, count))
		return ETCH_EINVAL;

	/* The caller's memory is read before the lock is taken: if that faults and the program survives, the lock is not
	 * left held. */
	txn_begin(&t);
	for (i = 0; i < count && !err; i++)
		err = store(&t, address(changes[i].object), changes[i].value, changes[i].size);

	if (!err) {
		err = etch_lock();
		held = !err;
	}
	for (i = 0; i < count && !err; i++)
		err = range_check(address(changes[i].object), changes[i].size);
	if (!err && in_order)
		err = in_order(&t.data);
	if (!err)
		err = txn_plan_stores(&t);
	if (!err)
		err = txn_commit(&t);
	if (err && t.data_refused)
		err = set_by_loads(&t, err);
	changed = !err && t.sites && &part_objects && t.data.count ? word_first(&t.data.word[0]) : 0;
	txn_end(&t);
	if (changed)
		part_objects.sets_count(changed);
	if (held)
		etch_unlock();
	return err;
}

ETCH_API int etch_imv_set_bytes(void *object, const void *value, size_t size)
{
	struct etch_change c = {object, value, size};

	return set_changes(&c, 1, NULL);
}
