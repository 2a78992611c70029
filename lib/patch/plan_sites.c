/* SPDX-License-Identifier: MIT */
/*
 * plan_sites.c: finds the sites of a set, in all modules: those that read what it stores. txn_plan_site() (plan.c)
 * plans each.
 */
#include "patch/parts.h"
#include "shared/search.h"

size_t sites_from(const struct sites *s, uint64_t from)
{
	return SEARCH(s->own_count, i, site_own_object(&s->entry[i] - (s->entry[i].form == ETCH_FORM_MORE)) < from);
}

int txn_plan_read(struct txn *t, struct range_read *r, const struct etch_imv *e, uint64_t at)
{
	unsigned size = site_size(e);

	if (!r->o || at < r->o->addr || at - r->o->addr >= r->o->size)
		r->o = module_object(r->owner, at);
	if (at + size <= r->from || !r->o || !module_reads_armed(r->owner, r->o, at, size))
		return 0;
	return txn_plan_site(t, e, at, r->o, PLAN_SET);
}

/* Plans the sites of a linked table that do not go through the GOT. */
static int plan_own(struct txn *t, struct range_read *r, const struct sites *s)
{
	/* No form reads more than 8 bytes, so sites that start up to 7 bytes before count. */
	size_t i = sites_from(s, r->from - 7);
	int err = 0;

	for (; i < s->own_count && !err; i++) {
		const struct etch_imv *e = &s->entry[i];

		if (e->form == ETCH_FORM_MORE)
			continue;
		if (site_own_object(e) >= r->to)
			break;
		err = txn_plan_read(t, r, e, site_own_object(e));
	}
	return err;
}

int txn_plan_tables(struct txn *t, const struct module *m, uint64_t from, uint64_t to, enum plan plan)
{
	int err = &part_objects ? part_objects.plan_inlines(t, m, from, to, plan) : 0;

	return err || !&part_branches ? err : part_branches.plan(t, m, from, to, plan);
}

/* Plans the stores of the contiguous data words [first, end). */
static int plan_stores_run(struct txn *t, size_t first, size_t end)
{
	struct range_read r = {.from = t->data.word[first].at, .to = t->data.word[end - 1].at + 8};
	struct module *owner = module_at(r.from);
	int err;

	if (!owner || !owner->object_count)
		return 0;
	t->run = first;
	t->run_end = end;
	t->memo.shape = 0; /* its images were for other values */
	t->slot.at = 0;
	r.owner = owner;
	err = module_check(owner);
	for (int kind = 0; owner->linked && kind < SITES_KINDS && !err; kind++)
		err = plan_own(t, &r, &owner->sites[kind]);
	if (!err)
		err = txn_plan_tables(t, owner, r.from, r.to, PLAN_SET);
	if (!err && &part_others)
		err = part_others.plan_reads(t, &r);
	return err;
}

int txn_plan_stores(struct txn *t)
{
	struct list *l = &t->data;
	struct word *w = l->word;
	size_t i, n = 0, first;
	int err = 0;

	for (i = 0; i < l->count; i++) {
		w[i].old = word_load(w[i].at);
		w[i].new |= w[i].old & ~w[i].mask;
		if (w[i].old != w[i].new)
			w[n++] = w[i];
	}
	l->count = n;
	for (first = 0; first < n && !err; first = i) {
		for (i = first + 1; i < n && w[i].at == w[i - 1].at + 8; i++)
			;
		err = plan_stores_run(t, first, i);
	}
	return err;
}
