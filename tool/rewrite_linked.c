/* SPDX-License-Identifier: MIT */
/* The link step: a linked file's tables sorted, its sites baked. */
#include "rewrite.h"

#include "site/bake.h"
#include "table/linked_tables.h"

#include <stdlib.h>
#include <string.h>

/* The sites that go to the table, with the addresses they refer to. */
static struct imv_row *imv_rows(const struct scan *s, size_t *count)
{
	struct imv_row *rows = calloc(s->site_count + 1, sizeof(*rows));
	size_t i, n = 0;

	for (i = 0; rows && i < s->site_count; i++) {
		const struct site *site = &s->sites[i];

		if (site->kind != SITE_LOAD || site->reason)
			continue;
		if ((site->entry.flags & ETCH_IMV_GOT) && !site->slot)
			continue; /* found by its address alone: which slot it came from is not known */
		rows[n].site = site->addr;
		rows[n].obj = site->entry.flags & ETCH_IMV_GOT ? site->slot
		              : s->objects.list[site->object].addr + (uint64_t)site->off;
		rows[n++].entry = site->entry;
	}
	*count = n;
	return rows;
}

/* Objects with their facts folded in; facts about other modules' objects stay. */
static struct obj_row *obj_rows(const struct scan *s, const struct linked_tables *now, size_t *count)
{
	struct obj_row *rows = calloc(s->objects.count + s->site_count + 1, sizeof(*rows));
	size_t i, k, n = 0;

	for (i = 0; rows && i < s->objects.defined; i++) {
		const struct object *o = &s->objects.list[i];

		if (o->unrecorded)
			continue;
		rows[n].addr = o->addr;
		rows[n].size = o->size;
		rows[n].kind = ETCH_OBJ_OBJECT;
		rows[n].flags = (uint8_t)(o->facts | (o->armed ? ETCH_OBJ_ARMED : 0) | (o->shared ? ETCH_OBJ_SHARED : 0));
		rows[n].name = o->name;
		for (k = 0; k < now->obj_count; k++) /* its name is in the file already */
			if (now->obj[k].kind == ETCH_OBJ_OBJECT && now->obj[k].addr == o->addr)
				rows[n].ref = now->obj[k].ref;
		n++;
	}
	for (i = 0; rows && i < s->site_count; i++) {
		const struct site *site = &s->sites[i];

		if (site->kind == SITE_LOAD || s->objects.list[site->object].section || !site->slot)
			continue;
		for (k = 0; k < n; k++)
			if (rows[k].kind != ETCH_OBJ_OBJECT && rows[k].addr == site->slot &&
			    (rows[k].kind == ETCH_OBJ_STORE) == (site->kind == SITE_STORE))
				break;
		if (k < n)
			continue;
		rows[n].addr = site->slot;
		rows[n].ref = site->addr;
		rows[n].kind = site->kind == SITE_STORE ? ETCH_OBJ_STORE : ETCH_OBJ_ESCAPE;
		rows[n++].flags = ETCH_OBJ_GOT;
	}
	*count = n;
	return rows;
}

/*
 * Where the tables cannot grow, the sites that the object step knew go on alone,
 * and the objects without a record stay unarmed.
 */
static int room_make(struct scan *s, struct elf_file *f, const struct linked_tables *now, struct error *e)
{
	size_t imv_count, obj_count, i, left;
	struct imv_row *imv = imv_rows(s, &imv_count);
	struct obj_row *obj = obj_rows(s, now, &obj_count);
	bool named = true;
	int room = -1;

	for (i = 0; obj && i < obj_count; i++)
		named &= obj[i].kind != ETCH_OBJ_OBJECT || obj[i].ref;
	if (!imv || !obj)
		error_set(e, "out of memory");
	else
		room = linked_tables_room(f, now, imv_count, obj_count, named, e);
	free(imv);
	free(obj);
	if (room)
		return room < 0 ? -1 : 0;
	left = sites_unlisted(s, now);
	return scan_finding_add(s, "ETCH-I004", 0, 0, "%zu sites stay loads: the tables cannot grow (%s)", left, e->text);
}

int rewrite_linked(struct elf_file *f, struct scan *s, struct rewrite_result *out, struct error *e)
{
	struct linked_tables now;
	struct imv_row *imv = NULL;
	struct obj_row *obj = NULL;
	uint8_t *before = NULL;
	size_t imv_count, obj_count, i;
	const char *why;
	int err = -1;

	memset(out, 0, sizeof(*out));
	memset(s, 0, sizeof(*s));
	/* What earlier steps left. A file without any of it has no etched object
	 * that etch could look after at run time. */
	err = linked_tables_read(f, &now, e);
	if (err) {
		err = err < 0 ? -1 : 0;
		goto out;
	}
	before = malloc(f->size + 1);
	if (!before) {
		err = error_set(e, "out of memory");
		goto out;
	}
	memcpy(before, f->bytes, f->size);
	err = -1;
	/* Start from what the linker wrote, so that twice is once. */
	if (sites_unbake(f, &now, e))
		goto out;
	/* All code again: LTO, plain externs and files that no object step saw. */
	if (scan_linked_file(s, f, &now)) {
		*e = s->error;
		goto out;
	}
	if (room_make(s, f, &now, e))
		goto out;
	/* An object that anything stores to, or whose address escapes, keeps its
	 * loads; the sites of the others get their first value. */
	objects_judge(s, &now);
	if (sites_bake(s, f, e))
		goto out;
	/* Tables last: they say what has been done. */
	imv = imv_rows(s, &imv_count);
	obj = obj_rows(s, &now, &obj_count);
	if (!imv || !obj) {
		error_set(e, "out of memory");
		goto out;
	}
	for (i = 0; i < s->site_count; i++) {
		const struct site *site = &s->sites[i];

		if (site->kind != SITE_LOAD)
			continue;
		out->kept += site->reason != NULL;
		out->sites += !site->reason;
		out->live += site_is_live(s, site, &why);
		out->baked += (site->entry.flags & ETCH_IMV_BAKED) != 0;
	}
	err = linked_tables_write(f, &now, imv, imv_count, obj, obj_count, &out->bytes, &out->size, e);
	if (err)
		goto out;
	if (!out->bytes && memcmp(before, f->bytes, f->size)) {
		out->bytes = malloc(f->size + 1);
		out->size = f->size;
		if (!out->bytes)
			err = error_set(e, "out of memory");
		else
			memcpy(out->bytes, f->bytes, f->size);
	} else if (out->bytes && out->size == f->size && !memcmp(out->bytes, before, f->size)) {
		free(out->bytes);
		out->bytes = NULL;
	}
out:
	linked_tables_free(&now);
	free(imv);
	free(obj);
	free(before);
	return err;
}
