/* SPDX-License-Identifier: MIT */
/*
 * arm.c: prepares a module that has just been loaded: folds facts into objects, and arms
 * the objects without facts.
 */
#include "patch/static_branch.h"
#include "patch/patch.h"

/* Plans the sites of `m` that reach armed objects through the GOT. An entry that cannot be patched
 * remains a load, which is correct too. */
static void plan_far_sites(struct txn *t, const struct module *m)
{
	struct object *o;
	struct module *owner;

	for (size_t i = 0; i < m->far_count; i++) {
		if (m->far[i].value & PAIR_FACT)
			continue;
		o = module_object_anywhere(m->far[i].key, &owner);
		/* The module's own objects have been planned by objects_arm(). */
		if (o && (owner != m || m->linked) &&
		    module_reads_armed(owner, o, m->far[i].key, site_size(pair_site(m, m->far[i].value))))
			txn_plan_site(t, pair_site(m, m->far[i].value), m->far[i].key, o, PLAN_ARM);
	}
}

/* Plans the sites of earlier modules that reach armed objects of m through their GOT. */
static void plan_far_sites_to(struct txn *t, const struct module *m)
{
	for (const struct module *k = module_list; k; k = k->next)
		for (size_t i = 0; k != m && i < k->far_count; i++) {
			struct object *o;

			if ((k->far[i].value & PAIR_FACT) || k->far[i].key < m->image.start || k->far[i].key >= m->image.end)
				continue;
			o = module_object(m, k->far[i].key);
			if (o && module_reads_armed(m, o, k->far[i].key, site_size(pair_site(k, k->far[i].value))))
				txn_plan_site(t, pair_site(k, k->far[i].value), k->far[i].key, o, PLAN_ARM);
		}
}

/* Plans the calls of a linked module that the link step could not bake because the dynamic linker
 * fills their slot. */
static void plan_late_calls(struct txn *t, const struct module *m)
{
	const struct sites *s = &m->sites[SITES_CALL];
	const struct object *o = NULL;

	for (size_t i = 0; i < s->own_count; i++) {
		const struct etch_imv *e = &s->entry[i];
		uint64_t at;

		if ((e->flags & ETCH_IMV_BAKED) || e->form == ETCH_FORM_NONE || !table_site_ok(m, e, 1))
			continue;
		at = site_object(e);
		if (!o || at < o->addr || at - o->addr >= o->size)
			o = module_object(m, at);
		if (o && (o->flags & OBJECT_ARMED))
			txn_plan_site(t, e, at, o, PLAN_ARM);
	}
}

/* Disarms objects that a newly loaded module has a fact about, and those that their pages have guarded: their sites
 * become loads. */
static void objects_disarm(struct module *owner, size_t first, size_t end)
{
	size_t from = first, to = end, i;
	struct txn t;
	int err = 0;

	txn_begin(&t);
	objects_fact(owner, first, end);
	module_page_mates(owner, &from, &to);
	for (i = from; i < to && !err; i++) {
		struct object *o = &owner->object[i];

		if (!(o->flags & OBJECT_ARMED) || ((i < first || i >= end) && !module_needs_guard(owner, o, 1)))
			continue;
		o->flags |= OBJECT_CHANGING;
		err = txn_plan_object(&t, o, PLAN_LOAD, NULL);
	}
	err = err ? err : txn_commit(&t);
	for (i = from; i < to; i++) {
		if (!err && (owner->object[i].flags & OBJECT_CHANGING))
			owner->object[i].flags &= ~(OBJECT_ARMED | OBJECT_SEALED);
		owner->object[i].flags &= ~OBJECT_CHANGING;
	}
	if (!err) {
		module_patched += t.sites;
		module_protect(owner, owner->object[from].addr, owner->object[to - 1].addr + owner->object[to - 1].size);
	}
	/* If this fails the page stays read-only, and the fault handler reports the plain store. */
	txn_end(&t);
}

static void facts_fold(struct module *m)
{
	for (struct module *k = module_list; k; k = k->next)
		for (size_t i = 0; i < k->far_count; i++) {
			struct module *owner;
			size_t first, end;

			/* Applies m's facts about objects of other modules, and their facts about
			 * m's objects. */
			if (!(k->far[i].value & PAIR_FACT))
				continue;
			owner = module_at(k->far[i].key);
			if (!owner || owner->bad || (k != m && owner != m))
				continue;
			module_fact_objects(owner, &k->obj[k->far[i].value & ~PAIR_FACT], k->far[i].key, &first, &end);
			if (first < end)
				objects_disarm(owner, first, end);
		}
}

/* Arms the objects without facts of a module that the link step has not processed. */
static void objects_arm(struct txn *t, struct module *m)
{
	size_t own[SITES_KINDS] = {0};

	txn_reserve(t, m->sites[SITES_LOAD].count + m->sites[SITES_CALL].count);
	for (size_t i = 0; i < m->object_count; i++) {
		struct object *o = &m->object[i];
		size_t mark = t->text.count, sites = t->sites;

		if (o->flags & OBJECT_FACT)
			continue;
		/* Errors are per object: a breakpoint at one site leaves only that object unarmed. */
		if (txn_plan_object(t, o, PLAN_ARM, own)) {
			t->text.count = mark;
			t->sites = sites;
		} else {
			o->flags |= OBJECT_ARMED;
		}
	}
}

void module_arm(struct module *m)
{
	struct txn t;
	int err;

	facts_fold(m);
	txn_begin(&t);
	if (m->linked) {
		plan_far_sites_to(&t, m);
		plan_far_sites(&t, m);
		plan_late_calls(&t, m);
		/* The same for calls compiled in place, of armed objects. */
		if (inlines_ok(m))
			txn_plan_inlines(&t, m, 0, UINT64_MAX, PLAN_SET);
		if (branches_ok(m))
			txn_plan_branches(&t, m, 0, UINT64_MAX, PLAN_SET);
		if (sync_available() && !txn_commit(&t))
			module_patched += t.sites;
	} else {
		/* Without the barrier no later set could patch code while threads run: sites
		 * remain loads, and sets are plain stores. */
		if (sync_available()) {
			objects_arm(&t, m);
			plan_far_sites(&t, m);
			err = txn_commit(&t);
			if (!err)
				module_patched += t.sites;
			for (size_t i = 0; err && i < m->object_count; i++)
				m->object[i].flags &= ~OBJECT_ARMED;
		}
	}
	txn_end(&t);
	if (m->pages)
		module_protect(m, m->page, m->page + m->pages * ETCH_PAGE);
	if (marks_calls)
		marks_calls->load(m);
}
