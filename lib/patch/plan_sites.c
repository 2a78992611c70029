/* SPDX-License-Identifier: MIT */
/*
 * plan_sites.c: finds the sites of a transaction, in all modules: those that read what it stores,
 * and those of a whole object. txn_plan_site() (plan.c) plans each.
 */
#include <string.h>

#include "patch/static_branch.h"
#include "patch/patch.h"
#include "shared/search.h"

/* An iterator over the sites of one module, in order of what they read. */
struct walk {
	const struct module *m;
	const struct etch_imv *entry; /* in a linked table; null: by index pair */
	const struct pair *pair;
	size_t at, end; /* indexes in `entry` or `pair` */
};

static size_t pair_from(const struct pair *p, size_t n, uint64_t key) { return SEARCH(n, i, p[i].key < key); }

/* kind: SITES_*. at: an index not behind the first site that reads from `from` on; null if unknown. */
static struct walk walk_own(const struct module *m, int kind, uint64_t from, const size_t *at)
{
	const struct sites *s = &m->sites[kind];
	struct walk w = {.m = m, .entry = m->linked ? s->entry : NULL, .pair = s->own, .end = s->own_count};

	if (at) {
		w.at = *at;
	} else if (!w.entry) {
		w.at = pair_from(s->own, s->own_count, from);
	} else {
		w.at = SEARCH(s->own_count, i, site_object(&s->entry[i] - (s->entry[i].form == ETCH_FORM_MORE)) < from);
	}
	return w;
}

static struct walk walk_far(const struct module *m, uint64_t from)
{
	return (struct walk){.m = m, .pair = m->far, .end = m->far_count, .at = pair_from(m->far, m->far_count, from)};
}

/* The next site, and the first byte that it reads; null at the end. */
static inline const struct etch_imv *walk_next(struct walk *w, uint64_t *object)
{
	const struct etch_imv *e;

	for (; w->at < w->end; w->at++) {
		if (w->entry) {
			if (w->entry[w->at].form == ETCH_FORM_MORE)
				continue;
			e = &w->entry[w->at++];
			*object = site_object(e);
			return e;
		}
		if (w->pair[w->at].value & PAIR_FACT)
			continue;
		e = pair_site(w->m, w->pair[w->at].value);
		*object = w->pair[w->at++].key;
		return e;
	}
	return NULL;
}

/* Plans the sites of one walk that read any byte of [from, to) and whose object is armed. */
static int plan_stores_walk(struct txn *t, const struct module *owner, struct walk w, uint64_t from, uint64_t to)
{
	const struct object *o = NULL;
	const struct etch_imv *e;
	uint64_t at;
	int err;

	while ((e = walk_next(&w, &at)) && at < to) {
		unsigned size = site_size(e);

		if (at + size <= from)
			continue;
		if (!o || at < o->addr || at - o->addr >= o->size) {
			o = module_object(owner, at);
			if (!o)
				continue;
		}
		if (!module_reads_armed(owner, o, at, size))
			continue;
		err = txn_plan_site(t, e, at, o, PLAN_SET);
		if (err)
			return err;
	}
	return 0;
}

/* Plans the stores of the contiguous data words [first, end). */
static int plan_stores_run(struct txn *t, size_t first, size_t end)
{
	uint64_t from = t->data.word[first].at, to = t->data.word[end - 1].at + 8;
	struct module *owner = module_at(from), *m;
	int err;

	if (!owner || !owner->object_count)
		return 0;
	t->run = first;
	t->run_end = end;
	t->memo.shape = 0; /* its images were for other values */
	t->slot.at = 0;
	err = module_check(owner);
	/* No form reads more than 8 bytes, so sites that start up to 7 bytes before count. */
	for (int kind = 0; kind < SITES_KINDS && !err; kind++)
		err = plan_stores_walk(t, owner, walk_own(owner, kind, from - 7, NULL), from, to);
	if (!err)
		err = txn_plan_inlines(t, owner, from, to, PLAN_SET);
	if (!err)
		err = txn_plan_branches(t, owner, from, to, PLAN_SET);
	for (m = module_list; m && !err; m = m->next)
		if (m->far_count)
			err = plan_stores_walk(t, owner, walk_far(m, from - 7), from, to);
	return err;
}

int txn_plan_stores(struct txn *t)
{
	struct list *l = &t->data;
	struct word *w = l->word;
	size_t i, n = 0, first;
	int err = list_sort(l);

	if (err)
		return err;
	for (i = 0; i < l->count; i++) {
		if (n && w[n - 1].at == w[i].at) { /* the later one wins */
			w[n - 1].new = (w[n - 1].new & ~w[i].mask) | w[i].new;
			w[n - 1].mask |= w[i].mask;
		} else {
			w[n++] = w[i];
		}
	}
	l->count = n;
	for (i = n = 0; i < l->count; i++) {
		w[i].old = word_load(w[i].at);
		w[i].new |= w[i].old & ~w[i].mask;
		if (w[i].old != w[i].new)
			w[n++] = w[i];
	}
	l->count = n;
	for (first = 0; first < n; first = i) {
		for (i = first + 1; i < n && w[i].at == w[i - 1].at + 8; i++)
			;
		err = plan_stores_run(t, first, i);
		if (err)
			return err;
	}
	return 0;
}

/* Does a site that starts in object o read no other variable? One that also reads the next, which is stored to
 * independently, remains a load. */
static int reads_one_variable(const struct module *m, const struct object *o, uint64_t at, unsigned size)
{
	for (; o + 1 < m->object + m->object_count && at + size > o[1].addr; o++)
		if (!(o[1].flags & OBJECT_FIELD))
			return 0;
	return 1;
}

/* ... and are the fields behind o, if it reads any, armed? */
static int reads_planned(const struct module *m, const struct object *o, uint64_t at, unsigned size)
{
	return o + 1 == m->object + m->object_count || at + size <= o[1].addr ||
	       ((o[1].flags & OBJECT_FIELD) && module_reads_armed(m, o + 1, at, size));
}

/* Plans the sites of one walk that start in the object; to make loads also those that begin in the field before it. */
static int plan_object_walk(struct txn *t, const struct module *owner, const struct object *o, struct walk *w,
                            enum plan plan)
{
	const struct etch_imv *e;
	uint64_t at;
	int err;

	while ((e = walk_next(w, &at))) {
		if (at < o->addr && !(plan == PLAN_LOAD && (o->flags & OBJECT_FIELD) && at + site_size(e) > o->addr))
			continue;
		if (at >= o->addr + o->size) {
			w->at--;
			break;
		}
		if (plan == PLAN_LOAD ? !reads_one_variable(owner, o, at, site_size(e))
		                      : !reads_planned(owner, o, at, site_size(e)))
			continue;
		err = txn_plan_site(t, e, at, o, plan);
		if (err)
			return err;
	}
	return 0;
}

int txn_plan_object(struct txn *t, const struct object *o, enum plan plan, size_t own[SITES_KINDS])
{
	struct module *owner = module_at(o->addr), *m;
	struct walk w;
	int err;

	t->run = t->run_end = 0;
	err = module_check(owner);
	if (err)
		return err;
	for (int kind = 0; kind < SITES_KINDS && !err; kind++) {
		w = walk_own(owner, kind, o->flags & OBJECT_FIELD ? o->addr - 7 : o->addr, own ? &own[kind] : NULL);
		err = plan_object_walk(t, owner, o, &w, plan);
		if (own)
			own[kind] = w.at;
	}
	if (!err)
		err = txn_plan_inlines(t, owner, o->addr, o->addr + o->size, plan);
	if (!err)
		err = txn_plan_branches(t, owner, o->addr, o->addr + o->size, plan);
	for (m = module_list; m && !err; m = m->next)
		if (m->far_count) {
			w = walk_far(m, o->flags & OBJECT_FIELD ? o->addr - 7 : o->addr);
			err = plan_object_walk(t, owner, o, &w, plan);
		}
	return err;
}
