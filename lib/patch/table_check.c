/* SPDX-License-Identifier: MIT */
/*
 * table_check.c: validates the tables of a module.
 *
 * A table comes from a file that anyone may have damaged. Everything that libetch later uses without a further check
 * is checked here: each address must lie in a segment of the module that permits the access, and no field may hold an
 * unknown value. If one entry is bad, the whole module is ignored, because its table cannot be trusted with text.
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

/* Called under the lock. Neighbours in a table mostly refer to one segment per protection, so the last match is tried
 * first. */
int range_has(const struct module *m, uint64_t at, uint64_t size, int prot)
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

/* May a table be at this place? */
static int table_place(const struct module *m, const struct bounds *b, size_t each)
{
	uint64_t bytes = b->stop - b->start;

	return !(bytes % each || (bytes && (b->start & 3)) || bytes / each > UINT32_MAX) &&
	       (!bytes || range_has(m, b->start, bytes, PROT_READ));
}

/* The range that a field of the module descriptor gives, by a relative address and a count. */
static int table_moved(struct bounds *b, const int64_t *field, uint64_t count, size_t each)
{
	b->start = (uint64_t)(uintptr_t)field + (uint64_t)*field;
	b->stop = b->start + count * each;
	return count <= UINT32_MAX && b->stop >= b->start;
}

/* The places where a module notes a table, and its bounds in the constructor's arguments. */
#define TABLE(in, pointer, bounds, type)                                                                          \
	{                                                                                                             \
		offsetof(struct module, pointer), offsetof(struct module, in), offsetof(struct module_arguments, bounds), \
			sizeof(struct type)                                                                                   \
	}
static const struct {
	uint16_t pointer, count, bounds, each;
} tables[] = {
	/* The first three are those of the descriptor, in its order. */
	TABLE(sites[SITES_LOAD].count, sites[SITES_LOAD].entry, imv, etch_imv),
	TABLE(obj_count, obj, obj, etch_obj),
	TABLE(sites[SITES_CALL].count, sites[SITES_CALL].entry, pv, etch_imv),
	TABLE(native_count, native, native, etch_native),
	TABLE(inline_count, inlines, in_place, etch_inline),
	TABLE(branch_count, branches, branch, etch_branch),
	TABLE(mark_count, marks, mark, etch_mark_site),
};

int table_locate(struct module *m, const struct module_arguments *args)
{
	const struct etch_module *d = args->desc;

	if (!range_has(m, (uint64_t)(uintptr_t)d, sizeof(*d), PROT_READ) || ((uintptr_t)d & 7))
		return 0;
	if (!etch_module_valid(d))
		return 0;
	m->linked = !!(d->flags & ETCH_MODULE_LINKED);
	for (unsigned i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		struct bounds b = *(const struct bounds *)((const char *)args + tables[i].bounds);
		const int64_t *moved = i < 3 ? &d->imv + 2 * i : NULL;

		if (moved && (d->flags & ETCH_MODULE_MOVED) && !table_moved(&b, moved, (uint64_t)moved[1], tables[i].each))
			return 0;
		if (b.stop < b.start || !table_place(m, &b, tables[i].each))
			return 0;
		*(const void **)((char *)m + tables[i].pointer) = (const void *)(uintptr_t)b.start;
		*(size_t *)((char *)m + tables[i].count) = (size_t)(b.stop - b.start) / tables[i].each;
	}
	return m->obj_count <= RECORDS_MAX;
}

int table_site_ok(const struct module *m, const struct etch_imv *e, int call)
{
	uint64_t at = etch_ref((uint64_t)(uintptr_t)&e->obj, e->obj);

	if (!form_valid(m, e, call))
		return 0;
	if (e->form == ETCH_FORM_NONE || e->form == ETCH_FORM_MORE)
		return 1;
	if (!range_has(m, site_address(e), etch_imv_len(e), PROT_READ | PROT_EXEC))
		return 0;
	if (e->flags & ETCH_IMV_GOT)
		return !(at & 7) && range_has(m, at, 8, PROT_READ);
	return range_has(m, at, site_size(e), PROT_READ);
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
	/* A fact may name any byte, even one past its object. */
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
