/* SPDX-License-Identifier: MIT */
/*
 * table_check.c: validates the tables of a module.
 *
 * A table comes from a file that may have been damaged by anyone. Everything that libetch later
 * uses without a further check is checked here: that each address lies in a segment of the
 * module that permits the access, and that no field holds an unknown value. One bad entry makes
 * the whole module ignored: its table cannot be trusted with text.
 */
#include "patch/internal.h"

const struct segment *image_segment(const struct image *im, uint64_t at, uint64_t size)
{
	for (unsigned i = 0; i < im->segments; i++) {
		const struct segment *s = &im->segment[i];

		if (at >= s->start && at < s->end && size <= s->end - at)
			return s;
	}
	return NULL;
}

/* Is [at, at+size) in a segment with this protection? Called under the lock. Neighbours in a table
 * mostly refer to one segment per protection, so the last match is tried first. */
static int range_has(const struct module *m, uint64_t at, uint64_t size, int prot)
{
	static unsigned recent[PROT_READ | PROT_WRITE | PROT_EXEC];
	unsigned *i = &recent[prot - 1];
	const struct segment *s = &m->image.segment[*i];

	if (*i >= m->image.segments || at < s->start || at >= s->end || size > s->end - at) {
		s = image_segment(&m->image, at, size);
		if (!s)
			return 0;
		*i = (unsigned)(s - m->image.segment);
	}
	return (s->prot & prot) == prot;
}

/* The start of a table; null with *count 0 if it is invalid. */
static const void *table_place(const struct module *m, uint64_t at, uint64_t bytes, size_t each, size_t *count)
{
	*count = 0;
	if (bytes % each || (at & 3) || bytes / each > UINT32_MAX)
		return NULL;
	if (bytes && !range_has(m, at, bytes, PROT_READ))
		return NULL;
	*count = bytes / each;
	return (const void *)(uintptr_t)at;
}

/* The range that a field of the module descriptor gives, by a relative address and a count. */
static int table_moved(struct bounds *b, const int64_t *field, uint64_t count, size_t each)
{
	b->start = (uint64_t)(uintptr_t)field + (uint64_t)*field;
	b->stop = b->start + count * each;
	return count <= UINT32_MAX && b->stop >= b->start;
}

int table_locate(struct module *m, const struct module_arguments *args)
{
	const struct etch_module *d = args->desc;
	struct bounds table[7] = {args->imv, args->pv, args->obj, args->native, args->in_place, args->branch, args->mark};
	static const size_t each[7] = {sizeof(struct etch_imv),      sizeof(struct etch_imv),    sizeof(struct etch_obj),
	                               sizeof(struct etch_native),   sizeof(struct etch_inline), sizeof(struct etch_branch),
	                               sizeof(struct etch_mark_site)};
	const void *at[7];
	size_t count[7];

	if (!range_has(m, (uint64_t)(uintptr_t)d, sizeof(*d), PROT_READ) || ((uintptr_t)d & 7))
		return 0;
	if (!etch_module_valid(d))
		return 0;
	m->linked = !!(d->flags & ETCH_MODULE_LINKED);
	if ((d->flags & ETCH_MODULE_MOVED) && (!table_moved(&table[0], &d->imv, d->imv_count, each[0]) ||
	                                       !table_moved(&table[1], &d->pv, d->pv_count, each[1]) ||
	                                       !table_moved(&table[2], &d->obj, d->obj_count, each[2])))
		return 0;
	for (int i = 0; i < 7; i++) {
		if (table[i].stop < table[i].start)
			return 0;
		at[i] = table_place(m, table[i].start, table[i].stop - table[i].start, each[i], &count[i]);
		if (table[i].stop != table[i].start && !count[i])
			return 0;
	}
	m->sites[SITES_LOAD].entry = at[0];
	m->sites[SITES_LOAD].count = count[0];
	m->sites[SITES_CALL].entry = at[1];
	m->sites[SITES_CALL].count = count[1];
	m->obj = at[2];
	m->obj_count = count[2];
	m->native = at[3];
	m->native_count = count[3];
	m->inlines = at[4];
	m->inline_count = count[4];
	m->branches = at[5];
	m->branch_count = count[5];
	m->marks = at[6];
	m->mark_count = count[6];
	return m->obj_count <= RECORDS_MAX;
}

/* The record belongs to the entry before it. */
static int table_more_ok(const struct module *m, const struct etch_imv *e)
{
	const struct sites *s = &m->sites[SITES_LOAD];

	return e > s->entry && (e[-1].flags & ETCH_IMV_MORE) && entry_is_site(&e[-1]);
}

int table_site_ok(const struct module *m, const struct etch_imv *e, int call)
{
	uint64_t at = etch_ref((uint64_t)(uintptr_t)&e->obj, e->obj);
	const struct sites *s = &m->sites[SITES_LOAD];

	if (!call && e->form == ETCH_FORM_MORE)
		return table_more_ok(m, e);
	if (!(call ? etch_pv_valid(e) : form_valid(e)))
		return 0;
	if (e->form == ETCH_FORM_NONE)
		return 1;
	if (!call && (e->flags & ETCH_IMV_MORE) && (e + 1 == s->entry + s->count || !etch_more_valid(e, etch_imv_more(e))))
		return 0;
	if (!range_has(m, site_address(e), etch_imv_len(e), PROT_READ | PROT_EXEC))
		return 0;
	if (e->flags & ETCH_IMV_GOT)
		return !(at & 7) && range_has(m, at, 8, PROT_READ);
	return range_has(m, at, site_size(e), PROT_READ);
}

/* The function, and its sequence with the ret behind it, are in code. */
int table_native_ok(const struct module *m, const struct etch_native *n)
{
	uint64_t func = etch_ref((uint64_t)(uintptr_t)&n->func, n->func);
	uint64_t code = etch_ref((uint64_t)(uintptr_t)&n->code, n->code);

	return etch_native_valid(n) && range_has(m, func, 1, PROT_READ | PROT_EXEC) &&
	       range_has(m, code, n->len + 1u, PROT_READ | PROT_EXEC);
}

int table_object_ok(const struct module *m, const struct etch_obj *o)
{
	uint64_t at = etch_ref((uint64_t)(uintptr_t)&o->addr, o->addr);
	uint64_t ref = etch_ref((uint64_t)(uintptr_t)&o->ref, o->ref);

	if (!etch_obj_valid(o, m->linked))
		return 0;
	if (o->kind == ETCH_OBJ_NONE)
		return 1;
	if (o->kind == ETCH_OBJ_OBJECT)
		return range_has(m, at, o->size ? o->size : 1, PROT_READ | PROT_WRITE) && range_has(m, ref, 1, PROT_READ);
	/* A fact may name any byte, also one past its object. */
	return !(o->flags & ETCH_OBJ_GOT) || (!(at & 7) && range_has(m, at, 8, PROT_READ));
}

static int sites_linked_ok(const struct module *m, const struct sites *s, int call)
{
	const struct etch_imv *before = NULL;
	uint64_t site, at, site_before = 0, at_before = 0;
	int empty = 0;

	for (size_t i = 0; i < s->count; i++) {
		const struct etch_imv *e = &s->entry[i];

		if (!table_site_ok(m, e, call))
			return 0;
		if (e->form == ETCH_FORM_NONE) {
			empty = 1;
			continue;
		}
		if (empty)
			return 0;
		if (e->form == ETCH_FORM_MORE)
			continue;
		site = site_address(e);
		at = etch_ref((uint64_t)(uintptr_t)&e->obj, e->obj);
		if (before) {
			unsigned got = e->flags & ETCH_IMV_GOT, got_before = before->flags & ETCH_IMV_GOT;

			if (got < got_before || (got == got_before && (at < at_before || (at == at_before && site < site_before))))
				return 0;
		}
		before = e;
		site_before = site;
		at_before = at;
	}
	return 1;
}

int table_linked_ok(const struct module *m)
{
	return sites_linked_ok(m, &m->sites[SITES_LOAD], 0) && sites_linked_ok(m, &m->sites[SITES_CALL], 1);
}

int table_natives_ok(const struct module *m)
{
	for (size_t i = 0; i < m->native_count; i++)
		if (!table_native_ok(m, &m->native[i]))
			return 0;
	return 1;
}
