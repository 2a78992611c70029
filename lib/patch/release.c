/* SPDX-License-Identifier: MIT */
/* release.c: turns objects into loads, and then makes their pages writable: in this order no store reaches a page
 * while a thread may still execute an old constant. The rules of give_up.c hold here, too. */
#include "patch/give_up.h"
#include "patch/patch.h"

int objects_release(struct module *m, size_t first, size_t end, size_t *sites)
{
	static struct txn t; /* under the lock; the stack of a signal handler may be small */
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
	*sites = err ? 0 : t.sites;
	if (!err)
		err = module_protect(m, m->object[first].addr, m->object[end - 1].addr + m->object[end - 1].size);
	txn_end(&t);
	return err;
}
