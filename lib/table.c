/* SPDX-License-Identifier: MIT */
/*
 * table.c: is a table what it claims to be?
 *
 * A table comes out of a file that anyone may have damaged. Everything that
 * libetch later takes from it without another look is checked here: that each
 * address lies in a segment of the module that asks for the access we will
 * make, and that no field holds a value we do not know. One bad entry makes the
 * module ignored: a table that lies once is not to be trusted with text.
 */
#include "internal.h"

const struct segment *image_segment(const struct image *im, uint64_t at, uint64_t size)
{
	for (unsigned i = 0; i < im->segments; i++) {
		const struct segment *s = &im->segment[i];

		if (at >= s->start && at < s->end && size <= s->end - at)
			return s;
	}
	return NULL;
}

/* Under the lock. Neighbours in a table mostly refer to one segment, by what we
 * want to do there: that one is tried first. */
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

static int table_place(struct module *m, uint64_t imv, uint64_t imv_bytes, uint64_t obj, uint64_t obj_bytes)
{
	if (imv_bytes % sizeof(struct etch_imv) || obj_bytes % sizeof(struct etch_obj) || (imv & 3) || (obj & 3))
		return 0;
	if (imv_bytes && !range_has(m, imv, imv_bytes, PROT_READ))
		return 0;
	if (obj_bytes && !range_has(m, obj, obj_bytes, PROT_READ))
		return 0;
	m->imv = (const struct etch_imv *)(uintptr_t)imv;
	m->imv_count = imv_bytes / sizeof(struct etch_imv);
	m->obj = (const struct etch_obj *)(uintptr_t)obj;
	m->obj_count = obj_bytes / sizeof(struct etch_obj);
	return m->imv_count <= UINT32_MAX && m->obj_count <= RECORDS_MOST;
}

int table_locate(struct module *m, const struct module_arguments *args)
{
	const struct etch_module *d = args->desc;

	if (!range_has(m, (uint64_t)(uintptr_t)d, sizeof(*d), PROT_READ) || ((uintptr_t)d & 7))
		return 0;
	if (!etch_module_valid(d))
		return 0;
	m->linked = !!(d->flags & ETCH_MODULE_LINKED);
	if (d->flags & ETCH_MODULE_MOVED) {
		if (d->imv_count > UINT32_MAX || d->obj_count > UINT32_MAX)
			return 0;
		return table_place(m, (uint64_t)(uintptr_t)&d->imv + (uint64_t)d->imv,
		                   d->imv_count * sizeof(struct etch_imv),
		                   (uint64_t)(uintptr_t)&d->obj + (uint64_t)d->obj,
		                   d->obj_count * sizeof(struct etch_obj));
	}
	if (args->imv_stop < args->imv_start || args->obj_stop < args->obj_start)
		return 0;
	return table_place(m, args->imv_start, args->imv_stop - args->imv_start, args->obj_start,
	                   args->obj_stop - args->obj_start);
}

int table_site_ok(const struct module *m, const struct etch_imv *e)
{
	uint64_t at = etch_ref((uint64_t)(uintptr_t)&e->obj, e->obj);

	if (!etch_imv_valid(e))
		return 0;
	if (e->form == ETCH_FORM_NONE)
		return 1;
	if (!range_has(m, site_address(e), etch_imv_len(e), PROT_READ | PROT_EXEC))
		return 0;
	if (e->flags & ETCH_IMV_GOT)
		return !(at & 7) && range_has(m, at, 8, PROT_READ);
	return range_has(m, at, etch_form_size(e->form), PROT_READ);
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
		return range_has(m, at, o->size ? o->size : 1, PROT_READ | PROT_WRITE) &&
		       range_has(m, ref, 1, PROT_READ);
	/* The byte of a plain fact may lie anywhere, also one past its object. */
	return !(o->flags & ETCH_OBJ_GOT) || (!(at & 7) && range_has(m, at, 8, PROT_READ));
}

int table_linked_ok(const struct module *m)
{
	const struct etch_imv *before = NULL;
	uint64_t site, at, site_before = 0, at_before = 0;
	int empty = 0;

	for (size_t i = 0; i < m->imv_count; i++) {
		const struct etch_imv *e = &m->imv[i];

		if (!table_site_ok(m, e))
			return 0;
		if (e->form == ETCH_FORM_NONE) {
			empty = 1;
			continue;
		}
		if (empty)
			return 0;
		site = site_address(e);
		at = etch_ref((uint64_t)(uintptr_t)&e->obj, e->obj);
		if (before) {
			unsigned got = e->flags & ETCH_IMV_GOT, got_before = before->flags & ETCH_IMV_GOT;

			if (got < got_before ||
			    (got == got_before && (at < at_before || (at == at_before && site < site_before))))
				return 0;
		}
		before = e;
		site_before = site;
		at_before = at;
	}
	return 1;
}
