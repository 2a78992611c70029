/* SPDX-License-Identifier: MIT */
/* page_mates.c: finds the objects that a fact, a field or a page concerns besides its own. */
#include "patch/give_up.h"

struct object *module_object_anywhere(uint64_t at, struct module **owner)
{
	struct module *m = module_at(at);

	*owner = m;
	return m && !m->bad ? module_object(m, at) : NULL;
}

int module_has_fields(const struct module *m, const struct object *o)
{
	return (o->flags & OBJECT_FIELD) || (o + 1 < m->object + m->object_count && (o[1].flags & OBJECT_FIELD));
}

struct object *module_fact_object(const struct module *m, uint64_t at)
{
	size_t i = module_object_from(m, at);

	if (i < m->object_count && m->object[i].addr <= at)
		return &m->object[i];
	if (i && PAGE_UP(m->object[i - 1].addr + m->object[i - 1].size) >= at)
		return &m->object[i - 1];
	return NULL;
}

void module_fields_all(const struct module *m, size_t *first, size_t *end)
{
	while (*first && (m->object[*first].flags & OBJECT_FIELD))
		--*first;
	while (*end < m->object_count && (m->object[*end].flags & OBJECT_FIELD))
		++*end;
}

void module_fact_objects(const struct module *m, const struct etch_obj *r, uint64_t at, size_t *first, size_t *end)
{
	const struct object *o = module_fact_object(m, at);
	uint64_t from = at + ETCH_FACT_FROM(r->size), to = from + ETCH_FACT_COUNT(r->size);

	*first = *end = 0;
	if (!o)
		return;
	*first = (size_t)(o - m->object);
	*end = *first + 1;
	module_fields_all(m, first, end);
	/* If the bytes are not all inside the variable, it is not the variable that the module was compiled for. */
	if (!(r->more & ETCH_OBJ_FIELD) || to > m->object[*end - 1].addr + m->object[*end - 1].size)
		return;
	while (m->object[*first].addr + m->object[*first].size <= from)
		++*first;
	while (m->object[*end - 1].addr >= to)
		--*end;
}

int module_is_dense(const struct module *m, const struct object *o)
{
	uint64_t page = PAGE_OF(o->addr);

	if (!(m->obj[o->record].more & ETCH_OBJ_DENSE))
		return 0;
	for (; !(o->flags & OBJECT_WRITABLE) && page < o->addr + o->size; page += ETCH_PAGE)
		if (!module_page_is_etched(m, page))
			return 1;
	return !!(o->flags & OBJECT_WRITABLE);
}

int module_needs_guard(const struct module *m, const struct object *o, int own)
{
	/* If a page of the object was ever given up, the facts have missed a store, so no proof about the object counts. */
	if (was_given_up(m, o))
		return 1;
	return (m->obj[o->record].flags & ETCH_OBJ_SHARED) && !(o->flags & OBJECT_WRITABLE) &&
	       (o->flags & (own && m->linked ? OBJECT_KEPT : OBJECT_KEPT | OBJECT_FACT));
}

void module_page_mates(const struct module *m, size_t *first, size_t *end)
{
	const struct object *last = &m->object[*end - 1];
	uint64_t from = PAGE_OF(m->object[*first].addr), to = PAGE_UP(last->addr + last->size);

	*first = module_object_from(m, from);
	while (*end < m->object_count && m->object[*end].addr < to)
		++*end;
}
