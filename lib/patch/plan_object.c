/* SPDX-License-Identifier: MIT */
/* plan_object.c: plans all sites of an object, to be armed or released. */
#include "patch/parts.h"

/* The immediate or displacement ends the instruction; when its value is encoded again, all the other bytes must come
 * out as they are. */
int immediate_of_some_value(const struct etch_imv *e, const uint8_t *bytes)
{
	/* Without the other forms, the immediates of all forms have four bytes. */
	struct etch_form_info f = &part_objects ? part_objects.info(e->form) : (struct etch_form_info){.width = 4};
	unsigned len = etch_imv_len(e), imm = etch_imm_len(f.width);
	uint64_t tail = 0;
	uint8_t out[16];

	if (f.imm == ETCH_IMM_FLAGS) {
		for (unsigned flags = 0; flags <= ETCH_NEED_FLAGS; flags++)
			if (part_objects.flags(etch_imv_more(e), flags, len, out) == len && !memcmp(out, bytes, len))
				return 1;
		return 0;
	}
	memcpy(&tail, bytes + len - imm, imm);
	if (immediate_form(e, tail, out) == len && !memcmp(out, bytes, len))
		return 1;
	tail = (uint64_t)((int64_t)(tail << (64 - 8 * imm)) >> (64 - 8 * imm));
	if (e->form == ETCH_FORM_MOV64 && bytes[len - 6] == 0x8d) /* lea */
		tail += site_address(e) + len;
	return immediate_form(e, tail, out) == len && !memcmp(out, bytes, len);
}

/* The sites of one module in the order of the bytes that they read. */
struct walk {
	const struct module *m;
	const struct etch_imv *entry; /* the linked table that is walked; null: `pair` is walked instead */
	const struct pair *pair;
	size_t at, end; /* indexes in `entry` or `pair` */
};

/* Begins a walk over the sites of a module that read `from` or a later byte, not through the GOT. kind: SITES_*. at: an
 * index that is not after the first such site; null if none is known. */
static struct walk walk_own(const struct module *m, int kind, uint64_t from, const size_t *at)
{
	const struct sites *s = &m->sites[kind];
	struct walk w = {.m = m, .entry = m->linked ? s->entry : NULL, .pair = s->own, .end = s->own_count};

	if (at) {
		w.at = *at;
	} else if (!w.entry) {
		w.at = pair_from(s->own, s->own_count, from);
	} else {
		w.at = sites_from(s, from);
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

/* Does a site that starts in object o read no other variable? A site that also reads the next variable, which is
 * stored to independently, remains a load. */
static int reads_one_variable(const struct module *m, const struct object *o, uint64_t at, unsigned size)
{
	for (; o + 1 < m->object + m->object_count && at + size > o[1].addr; o++)
		if (!(o[1].flags & OBJECT_FIELD))
			return 0;
	return 1;
}

/* If the site also reads fields after o, are they armed? */
static int reads_planned(const struct module *m, const struct object *o, uint64_t at, unsigned size)
{
	return o + 1 == m->object + m->object_count || at + size <= o[1].addr ||
	       ((o[1].flags & OBJECT_FIELD) && module_reads_armed(m, o + 1, at, size));
}

/* Plans the sites of one walk whose first byte read is in the object; with PLAN_LOAD also those that start in the field
 * before it and read bytes of the object. */
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
		err = txn_plan_tables(t, owner, o->addr, o->addr + o->size, plan);
	for (m = module_list; m && !err; m = m->next)
		if (m->far_count) {
			w = walk_far(m, o->flags & OBJECT_FIELD ? o->addr - 7 : o->addr);
			err = plan_object_walk(t, owner, o, &w, plan);
		}
	return err;
}

/* Plans the sites of one walk that read bytes that are stored to. */
static int plan_reads_walk(struct txn *t, struct range_read *r, struct walk w)
{
	const struct etch_imv *e;
	uint64_t at;
	int err = 0;

	while (!err && (e = walk_next(&w, &at)) && at < r->to)
		err = txn_plan_read(t, r, e, at);
	return err;
}

int plan_reads(struct txn *t, struct range_read *r)
{
	int err = 0;

	for (int kind = 0; !r->owner->linked && kind < SITES_KINDS && !err; kind++)
		err = plan_reads_walk(t, r, walk_own(r->owner, kind, r->from - 7, NULL));
	for (const struct module *m = module_list; m && !err; m = m->next)
		if (m->far_count)
			err = plan_reads_walk(t, r, walk_far(m, r->from - 7));
	return err;
}

void txn_reserve(struct txn *t, size_t sites) { (void)list_capacity(&t->text, sites, 1, MAP_POPULATE); }
