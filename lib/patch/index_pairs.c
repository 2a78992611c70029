/* SPDX-License-Identifier: MIT */
/*
 * index_pairs.c: the part of index.c that the core does not need: it indexes the sites and objects of tables that the
 * link step has not sorted, and sites through the GOT and facts, each by the address of its object.
 */
#include <string.h>

#include "common/sys.h"
#include "patch/parts.h"
#include "patch/parts.h"

/* A stable sort by key: a radix sort of the bytes in which keys differ. Tables are mostly in text order, which
 * entries with equal keys keep. temp: space for n more. */
static void pairs_sort(struct pair *p, size_t n, struct pair *temp)
{
	uint64_t any = 0, first = n ? p[0].key : 0;
	struct pair *from = p, *to = temp, *swap;
	int sorted = 1, falling = 1;

	for (size_t i = 1; i < n; i++) {
		any |= p[i].key ^ first;
		sorted &= p[i - 1].key <= p[i].key;
		falling &= p[i - 1].key > p[i].key;
	}
	/* gcc emits variables last to first. */
	for (size_t i = 0; falling && i < n / 2; i++) {
		struct pair x = p[i];

		p[i] = p[n - 1 - i];
		p[n - 1 - i] = x;
	}
	sorted |= falling;
	for (unsigned shift = 0; !sorted && shift < 64; shift += 8) {
		size_t count[256] = {0}, at = 0;

		if (!(any >> shift & 0xff))
			continue;
		for (size_t i = 0; i < n; i++)
			count[from[i].key >> shift & 0xff]++;
		for (unsigned i = 0; i < 256; i++) {
			size_t c = count[i];

			count[i] = at;
			at += c;
		}
		for (size_t i = 0; i < n; i++)
			to[count[from[i].key >> shift & 0xff]++] = from[i];
		swap = from;
		from = to;
		to = swap;
	}
	if (from != p)
		memcpy(p, from, n * sizeof(*p));
}

static int sites_count(const struct module *m, int kind, struct counts *c)
{
	const struct sites *s = &m->sites[kind];

	for (size_t i = 0; i < s->count; i++) {
		const struct etch_imv *e = &s->entry[i];

		if (!table_site_ok(m, e, kind == SITES_CALL) || (e->flags & ETCH_IMV_BAKED))
			return 0;
		if (!entry_is_site(e))
			continue;
		if (e->flags & ETCH_IMV_GOT)
			c->got++;
		else
			c->own[kind]++;
	}
	return 1;
}

/* Checks and counts the sites through the GOT of a linked table, which follow those of its own objects. */
static int got_count(const struct module *m, int kind, struct counts *c)
{
	const struct sites *s = &m->sites[kind];

	for (size_t k = c->own[kind]; k < s->count && s->entry[k].form != ETCH_FORM_NONE; k++, c->got++)
		if (!(s->entry[k].flags & ETCH_IMV_GOT) || !table_site_ok(m, &s->entry[k], kind == SITES_CALL))
			return 0;
	return 1;
}

int others_count(const struct module *m, struct counts *c)
{
	c->got = 0;
	for (int kind = 0; kind < SITES_KINDS; kind++)
		if (!(m->linked ? got_count(m, kind, c) : sites_count(m, kind, c)))
			return 0;
	c->pairs = c->got + c->facts + (m->linked ? 0 : c->own[SITES_LOAD] + c->own[SITES_CALL]);
	return 1;
}

static int is_object(const struct etch_obj *r) { return r->kind == ETCH_OBJ_OBJECT; }

/* Fills in the objects. Records from the link step are in ascending order, and those that gcc emits for one file in
 * descending order; both are taken as they are. Records in any other order are sorted, with `pair` as working
 * memory. */
static void objects_sorted(struct module *m, const struct counts *c, struct pair *pair)
{
	size_t n = 0, i;

	if (c->rising) {
		for (i = 0; i < m->obj_count; i++)
			object_add(m, &m->obj[i]);
	} else if (c->falling) {
		for (i = m->obj_count; i--;)
			object_add(m, &m->obj[i]);
	} else {
		for (i = 0; i < m->obj_count; i++)
			if (is_object(&m->obj[i]))
				pair[n++] = (struct pair){record_object(&m->obj[i]), i};
		pairs_sort(pair, n, pair + n);
		for (i = 0; i < n; i++)
			object_add(m, &m->obj[pair[i].value]);
	}
}

/* Notes that code stores, or may store, to these objects. Fields and dense objects share pages with others: their
 * page stays writable, so they stay unarmed even after etch_sync. Objects of ETCHED_SHARED stay unarmed while their
 * page is writable. */
void objects_fact(struct module *m, size_t first, size_t end)
{
	for (; first < end; first++) {
		struct object *o = &m->object[first];

		o->flags |= OBJECT_FACT;
		if (module_has_fields(m, o) || module_is_dense(m, o) || (m->obj[o->record].flags & ETCH_OBJ_SHARED))
			o->flags |= OBJECT_KEPT;
	}
}

static void indexes_fill(struct module *m, const struct counts *c, struct pair *temp)
{
	size_t far = 0, n, i;

	for (int kind = 0; kind < SITES_KINDS; kind++) {
		struct sites *s = &m->sites[kind];
		uint64_t which = kind == SITES_CALL ? PAIR_CALL : 0;

		for (i = n = 0; !m->linked && i < s->count; i++)
			if (entry_is_site(&s->entry[i]) && !(s->entry[i].flags & ETCH_IMV_GOT))
				s->own[n++] = (struct pair){site_object(&s->entry[i]), i | which};
		pairs_sort(s->own, n, temp);
		/* In a linked table, only the entries that linked_count() has checked. */
		for (i = m->linked ? s->own_count : 0;
		     c->got && i < s->count && !(m->linked && s->entry[i].form == ETCH_FORM_NONE); i++)
			if (entry_is_site(&s->entry[i]) && (s->entry[i].flags & ETCH_IMV_GOT))
				m->far[far++] = (struct pair){site_object(&s->entry[i]), i | which};
	}
	for (i = 0; c->facts && i < m->obj_count; i++) {
		const struct etch_obj *r = &m->obj[i];
		size_t first, end;
		uint64_t at;

		if (r->kind != ETCH_OBJ_STORE && r->kind != ETCH_OBJ_ESCAPE)
			continue;
		at = record_object(r);
		module_fact_objects(m, r, at, &first, &end);
		if (first < end)
			objects_fact(m, first, end);
		else
			m->far[far++] = (struct pair){at, i | PAIR_FACT};
	}
	m->far_count = far;
	pairs_sort(m->far, far, temp);
}

int others_fill(struct module *m, const struct counts *c)
{
	size_t own = m->linked ? 0 : c->own[SITES_LOAD] + c->own[SITES_CALL], far = c->pairs - own;
	size_t count = c->rising || c->falling ? 0 : 2 * c->objects;
	struct pair *temp = NULL;

	count = count < own ? own : count;
	count = count < far ? far : count;
	if (count) {
		temp = sys_map(count * sizeof(*temp), 0);
		if (!temp)
			return 0;
	}
	for (int kind = 0; kind < SITES_KINDS && !m->linked; kind++) {
		m->sites[kind].own = m->far;
		m->far += c->own[kind];
	}
	objects_sorted(m, c, temp);
	indexes_fill(m, c, temp);
	if (temp)
		sys_munmap(temp, count * sizeof(*temp));
	return 1;
}
