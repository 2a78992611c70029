/* SPDX-License-Identifier: MIT */
/*
 * arm.c: prepares a module that has just been loaded. A module of the link step is already armed, except for sites
 * that it could not bake; in any other module the objects without facts are armed (other_modules.c).
 */
#include "patch/parts.h"
#include "patch/static_branch.h"

/* Plans the sites that the link step leaves to libetch: those that reach other modules, calls of functions that the
 * dynamic linker finds, and branches. */
static void plan_linked(struct txn *t, const struct module *m)
{
	if (&part_others)
		part_others.plan_far(t, m);
	if (&part_objects)
		part_objects.plan_late(t, m);
	if (&part_branches && part_branches.ok(m))
		part_branches.plan(t, m, 0, UINT64_MAX, PLAN_SET);
}

void module_arm(struct module *m)
{
	struct txn t;

	if (&part_others)
		part_others.fold(m);
	/* Without the barrier no later set could patch code while threads run, so the sites of an unlinked module remain
	 * loads, and sets are plain stores. */
	if (m->linked) {
		txn_begin(&t);
		plan_linked(&t, m);
		if (sync_available() && !txn_commit(&t))
			module_patched += t.sites;
		txn_end(&t);
	} else if (&part_others && sync_available()) {
		part_others.arm(m);
	}
	if (m->pages)
		module_protect(m, m->page, m->page + m->pages * ETCH_PAGE);
	if (marks_calls)
		marks_calls->load(m);
}
