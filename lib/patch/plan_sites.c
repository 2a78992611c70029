/* SPDX-License-Identifier: MIT */
/*
 * plan_sites.c: finds the sites of a set, in all modules: those that read what it stores. txn_plan_site() (plan.c)
 * plans each.
 */
#include "patch/parts.h"
#include "patch/walk.h"
#include "shared/search.h"

static size_t pair_from(const struct pair *p, size_t n, uint64_t key) { return SEARCH(n, i, p[i].key < key); }

struct walk walk_own(const struct module *m, int kind, uint64_t from, const size_t *at)
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

struct walk walk_far(const struct module *m, uint64_t from)
{
	return (struct walk){.m = m, .pair = m->far, .end = m->far_count, .at = pair_from(m->far, m->far_count, from)};
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

int txn_plan_tables(struct txn *t, const struct module *m, uint64_t from, uint64_t to, enum plan plan)
{
	int err = &part_objects ? part_objects.plan_inlines(t, m, from, to, plan) : 0;

	return err || !&part_branches ? err : part_branches.plan(t, m, from, to, plan);
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
		err = txn_plan_tables(t, owner, from, to, PLAN_SET);
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
