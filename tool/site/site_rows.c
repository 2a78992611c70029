/* SPDX-License-Identifier: MIT */
/* Makes the rows of a linked file's tables from the results of the scan and the decisions about arming. */
#include "site/site_rows.h"
#include "support/memory.h"

#include <stdlib.h>

/* Makes the rows for sites of one kind, with the addresses to which they refer. */
static struct imv_row *site_rows(const struct scan *s, enum site_kind kind, size_t *count)
{
	struct imv_row *rows = mem_zero(s->site_count + 1, sizeof(*rows));
	size_t i, n = 0;

	for (i = 0; i < s->site_count; i++) {
		const struct site *site = &s->sites[i];

		if (site->kind != kind || site->reason)
			continue;
		if ((site->entry.flags & ETCH_IMV_GOT) && !site->slot)
			continue; /* the address came from the GOT, but no GOT slot of the object was found */
		rows[n].site = site->addr;
		rows[n].obj =
			site->entry.flags & ETCH_IMV_GOT ? site->slot : s->objects.list[site->object].addr + (uint64_t)site->off;
		rows[n].entry = site->entry;
		rows[n++].more = site->more;
	}
	*count = n;
	return rows;
}

/* Sets in a row the bytes of another module's object to which a store writes, if the row can express them. */
static void fact_bytes(struct obj_row *row, const struct site *site)
{
	if (site->kind != SITE_STORE || !site->off_known || !site->size || site->size > 64 || site->off < 0 ||
	    site->off > 0xffffff)
		return;
	row->more = ETCH_OBJ_FIELD;
	row->size = ETCH_FACT_BYTES(site->off, site->size);
}

/* Replaces the row of an object, rows[n], by one row for each of its ranges. Returns the index of the next free row. */
static size_t range_rows(struct obj_row *rows, size_t n, const struct object *o)
{
	const struct obj_row whole = rows[n];
	size_t i, k = n;

	for (i = 0; i < o->range_count; i++) {
		const struct object_range *p = &o->ranges[i];
		uint8_t facts = ETCH_OBJ_STORED | ETCH_OBJ_ESCAPED | ETCH_OBJ_ARMED;

		rows[k] = whole;
		rows[k].addr = o->addr + p->from;
		rows[k].size = p->to - p->from;
		rows[k].flags = (uint8_t)((whole.flags & ~facts) | p->facts | (o->in_part && !p->facts ? ETCH_OBJ_ARMED : 0));
		rows[k].more |=
			(uint16_t)((i ? ETCH_OBJ_FIELD : 0) | (p->kept ? ETCH_OBJ_KEPT : 0) | (p->kernel ? ETCH_OBJ_KERNEL : 0));
		rows[k].name = p->name;
		if (i)
			rows[k].ref = 0;
		k++;
	}
	return k;
}

/* Makes the row of an object. The row refers to the object's name in the file, if the file has it. */
static struct obj_row object_row(const struct object *o, const struct linked_tables *now)
{
	bool whole = o->range_count <= 1;
	struct obj_row row = {.addr = o->addr, .size = o->size, .kind = ETCH_OBJ_OBJECT, .name = o->name};
	size_t k;

	row.flags = (uint8_t)(o->facts | (o->armed ? ETCH_OBJ_ARMED : 0) | (o->shared ? ETCH_OBJ_SHARED : 0) |
	                      (o->value ? ETCH_OBJ_VALUE : 0) | (o->inferred ? ETCH_OBJ_PART : 0));
	row.more = (uint16_t)((o->vague ? ETCH_OBJ_VAGUE : 0) | (o->dense ? ETCH_OBJ_DENSE : 0) |
	                      (o->kept && whole ? ETCH_OBJ_KEPT : 0) | (o->kernel && whole ? ETCH_OBJ_KERNEL : 0));
	for (k = 0; k < now->obj_count; k++)
		if (now->obj[k].kind == ETCH_OBJ_OBJECT && now->obj[k].addr == o->addr)
			row.ref = now->obj[k].ref;
	return row;
}

/*
 * Adds rows for the facts about objects of other modules, without duplicates, after the first `n` rows. Returns the
 * number of all rows.
 */
static size_t fact_rows_add(const struct scan *s, struct obj_row *rows, size_t n)
{
	size_t i, k;

	for (i = 0; i < s->site_count; i++) {
		const struct site *site = &s->sites[i];
		struct obj_row row = {.addr = site->slot,
		                      .ref = site->addr,
		                      .kind = site->kind == SITE_STORE ? ETCH_OBJ_STORE : ETCH_OBJ_ESCAPE,
		                      .flags = ETCH_OBJ_GOT};

		if (site_kind_is_patched(site->kind) || s->objects.list[site->object].section || !site->slot ||
		    (site->recorded && scan_is_explained(s, i)))
			continue;
		fact_bytes(&row, site);
		for (k = 0; k < n; k++)
			if (rows[k].kind == row.kind && rows[k].addr == row.addr && rows[k].size == row.size)
				break;
		if (k == n)
			rows[n++] = row;
	}
	return n;
}

/*
 * Makes the rows of __etch_obj: first one for each object, with all its facts, and then those for facts about objects
 * of other modules.
 */
static struct obj_row *obj_rows(const struct scan *s, const struct linked_tables *now, size_t *count)
{
	size_t i, n = 0, ranges = 0;
	struct obj_row *rows;

	for (i = 0; i < s->objects.defined; i++)
		ranges += s->objects.list[i].range_count;
	rows = mem_zero(s->objects.count + ranges + s->site_count + 1, sizeof(*rows));
	for (i = 0; i < s->objects.defined; i++) {
		const struct object *o = &s->objects.list[i];

		if (o->unrecorded)
			continue;
		rows[n++] = object_row(o, now);
		if (o->range_count > 1)
			n = range_rows(rows, n - 1, o);
	}
	*count = fact_rows_add(s, rows, n);
	return rows;
}

void rows_keep(const struct linked_tables *now, struct linked_rows *out)
{
	out->imv = mem_copy(now->imv, now->imv_count * sizeof(*out->imv));
	out->pv = mem_copy(now->pv, now->pv_count * sizeof(*out->pv));
	out->obj = mem_copy(now->obj, now->obj_count * sizeof(*out->obj));
	out->imv_count = now->imv_count;
	out->pv_count = now->pv_count;
	out->obj_count = now->obj_count;
}

void rows_make(const struct scan *s, const struct linked_tables *now, bool imv, bool pv, struct linked_rows *rows)
{
	if (imv) {
		free(rows->imv);
		rows->imv = site_rows(s, SITE_LOAD, &rows->imv_count);
	}
	if (pv) {
		free(rows->pv);
		rows->pv = site_rows(s, SITE_CALL, &rows->pv_count);
	}
	free(rows->obj);
	rows->obj = obj_rows(s, now, &rows->obj_count);
}
