/* SPDX-License-Identifier: MIT */
/*
 * arm.c: a module that has just been loaded: facts folded, and what has none is armed.
 */
#include "patch.h"

/* Sites through the GOT of `m` to objects that are armed; an entry that cannot be
 * patched stays a load, which is right too. */
static void plan_far_sites(struct txn *t, const struct module *m)
{
	struct object *o;
	struct module *owner;

	for (size_t i = 0; i < m->far_count; i++) {
		if (m->far[i].value & PAIR_FACT)
			continue;
		o = module_object_anywhere(m->far[i].key, &owner);
		/* Its own ones objects_arm() has planned. */
		if (o && (owner != m || m->linked) && (o->flags & OBJECT_ARMED))
			txn_plan_site(t, pair_site(m, m->far[i].value), m->far[i].key, o, PLAN_ARM);
	}
}

/* Sites through the GOT of modules that came before, to armed objects of m. */
static void plan_far_sites_to(struct txn *t, const struct module *m)
{
	for (const struct module *k = module_list; k; k = k->next)
		for (size_t i = 0; k != m && i < k->far_count; i++) {
			struct object *o;

			if ((k->far[i].value & PAIR_FACT) || k->far[i].key < m->image.start ||
			    k->far[i].key >= m->image.end)
				continue;
			o = module_object(m, k->far[i].key);
			if (o && (o->flags & OBJECT_ARMED))
				txn_plan_site(t, pair_site(k, k->far[i].value), k->far[i].key, o, PLAN_ARM);
		}
}

/* Calls of a linked module that the link step could not bake, because the dynamic
 * linker fills in their slot: now it is known. */
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

/* An armed object that a module with a fact about it has met: loads again. */
static void object_disarm(struct module *owner, struct object *o)
{
	struct txn t;

	txn_begin(&t);
	o->flags |= OBJECT_FACT;
	if ((o->flags & OBJECT_ARMED) && !txn_plan_object(&t, o, PLAN_LOAD, NULL) && !txn_commit(&t)) {
		module_patched += t.text.count;
		o->flags &= ~(OBJECT_ARMED | OBJECT_SEALED);
		module_protect(owner, o->addr, o->addr + o->size);
	}
	/* Where that fails it stays read-only, and the plain store is caught. */
	txn_end(&t);
}

static void facts_fold(struct module *m)
{
	for (struct module *k = module_list; k; k = k->next)
		for (size_t i = 0; i < k->far_count; i++) {
			struct module *owner;
			struct object *o;

			/* What m says of others, and what others say of m. */
			if (!(k->far[i].value & PAIR_FACT))
				continue;
			owner = module_at(k->far[i].key);
			if (!owner || owner->bad || (k != m && owner != m))
				continue;
			o = module_fact_object(owner, k->far[i].key);
			if (o)
				object_disarm(owner, o);
		}
}

/* The objects without facts of a module that the link step has not seen. */
static void objects_arm(struct txn *t, struct module *m)
{
	size_t own[SITES_KINDS] = {0};

	txn_reserve(t, m->sites[SITES_LOAD].count + m->sites[SITES_CALL].count);
	for (size_t i = 0; i < m->object_count; i++) {
		struct object *o = &m->object[i];
		size_t mark = t->text.count;

		if (o->flags & OBJECT_FACT)
			continue;
		/* Trouble is per object: a breakpoint at one site keeps one a load. */
		if (txn_plan_object(t, o, PLAN_ARM, own))
			t->text.count = mark;
		else
			o->flags |= OBJECT_ARMED;
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
		/* Calls in place, likewise: those of armed objects. */
		if (inlines_ok(m))
			txn_plan_inlines(&t, m, 0, UINT64_MAX, PLAN_SET);
		if (sync_available() && !txn_commit(&t))
			module_patched += t.text.count;
	} else {
		/* Without the barrier no later set could be made under threads: then
		 * leave loads, and sets stay plain stores. */
		if (sync_available()) {
			objects_arm(&t, m);
			plan_far_sites(&t, m);
			err = txn_commit(&t);
			if (!err)
				module_patched += t.text.count;
			for (size_t i = 0; err && i < m->object_count; i++)
				m->object[i].flags &= ~OBJECT_ARMED;
		}
	}
	txn_end(&t);
	if (m->pages)
		module_protect(m, m->page, m->page + m->pages * ETCH_PAGE);
}
