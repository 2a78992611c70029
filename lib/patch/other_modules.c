/* SPDX-License-Identifier: MIT */
/*
 * other_modules.c: the part of libetch for objects of other modules, and for modules that the link step has not seen:
 * it folds facts into objects, plans the sites that reach other modules, and arms the objects without facts.
 */
#include "patch/give_up.h"
#include "patch/parts.h"

PART_WORD(2, ETCH_PART_OTHERS_SYMBOL);

/* Plans the sites of `m` that reach armed objects through the GOT. An entry that cannot be patched remains a load,
 * which is correct too. */
static void plan_far_sites(struct txn *t, const struct module *m)
{
	struct object *o;
	struct module *owner;

	for (size_t i = 0; i < m->far_count; i++) {
		if (m->far[i].value & PAIR_FACT)
			continue;
		o = module_object_anywhere(m->far[i].key, &owner);
		/* objects_arm() has planned the module's own objects. */
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

/* Disarms objects that a newly loaded module has a fact about, and those that were armed only because all their pages
 * were read-only: their sites become loads. */
static void objects_disarm(struct module *owner, size_t first, size_t end)
{
	size_t from = first, to = end, sites, i;

	objects_fact(owner, first, end);
	module_page_mates(owner, &from, &to);
	for (i = from; i < to; i++) {
		struct object *o = &owner->object[i];

		if ((o->flags & OBJECT_ARMED) && ((i >= first && i < end) || module_needs_guard(owner, o, 1)))
			o->flags |= OBJECT_CHANGING;
	}
	/* If this fails, the page stays read-only, and a store to it faults (trap.c). */
	(void)objects_release(owner, from, to, &sites);
	module_patched += sites;
}

static void facts_fold(struct module *m)
{
	for (struct module *k = module_list; k; k = k->next)
		for (size_t i = 0; i < k->far_count; i++) {
			struct module *owner;
			size_t first, end;

			/* Applies m's facts about objects of other modules, and their facts about m's objects. */
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

static void plan_far(struct txn *t, const struct module *m)
{
	plan_far_sites_to(t, m);
	plan_far_sites(t, m);
}

static void others_arm(struct module *m)
{
	struct txn t;

	txn_begin(&t);
	objects_arm(&t, m);
	plan_far_sites(&t, m);
	if (!txn_commit(&t))
		module_patched += t.sites;
	else
		for (size_t i = 0; i < m->object_count; i++)
			m->object[i].flags &= ~OBJECT_ARMED;
	txn_end(&t);
}

const struct part_others part_others = {
	.count = others_count,
	.fill = others_fill,
	.fold = facts_fold,
	.plan_reads = plan_reads,
	.plan_far = plan_far,
	.arm = others_arm,
	.is_immediate = immediate_of_some_value,
	.copied = module_copied,
};
