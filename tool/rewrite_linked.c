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

/* Sites: found, judged, baked; the rows of their tables. */
static int imv_pass(struct elf_file *f, const struct linked_tables *now, struct scan *s, struct rewrite_result *out,
                    struct imv_row **imv, size_t *imv_count, struct obj_row **obj, size_t *obj_count, struct error *e)
{
	const char *why;
	size_t i;

	/* All code again: LTO, plain externs and files that no object step saw. */
	if (scan_linked_file(s, f, now)) {
		*e = s->error;
		return -1;
	}
	if (room_make(s, f, now, e))
		return -1;
	/* An object that anything stores to, or whose address escapes, keeps its
	 * loads; the sites of the others get their first value. */
	objects_judge(s, now);
	if (sites_bake(s, f, e))
		return -1;
	*imv = imv_rows(s, imv_count);
	*obj = obj_rows(s, now, obj_count);
	if (!*imv || !*obj)
		return error_set(e, "out of memory");
	for (i = 0; i < s->site_count; i++) {
		const struct site *site = &s->sites[i];

		if (site->kind != SITE_LOAD)
			continue;
		out->kept += site->reason != NULL;
		out->sites += !site->reason;
		out->live += site_is_live(s, site, &why);
		out->baked += (site->entry.flags & ETCH_IMV_BAKED) != 0;
	}
	return 0;
}

/* The tables of an earlier run as rows, to be written again where they lie now. */
static int imv_keep(const struct linked_tables *now, struct imv_row **imv, size_t *imv_count, struct obj_row **obj,
                    size_t *obj_count, struct error *e)
{
	*imv = malloc((now->imv_count + 1) * sizeof(**imv));
	*obj = malloc((now->obj_count + 1) * sizeof(**obj));
	if (!*imv || !*obj)
		return error_set(e, "out of memory");
	memcpy(*imv, now->imv, now->imv_count * sizeof(**imv));
	memcpy(*obj, now->obj, now->obj_count * sizeof(**obj));
	*imv_count = now->imv_count;
	*obj_count = now->obj_count;
	return 0;
}

/* The sites are done all the same. */
static int unwind_missing(struct scan *s, const char *why)
{
	return scan_finding_add(s, "ETCH-T001", 0, 0, "no unwind table: %.200s", why);
}

/*
 * A segment for the unwind table alone. Where there is no place for one, what was
 * done for the sites stays, and the table is a finding; without sites it is an error.
 */
static int unwind_write(const struct elf_file *f, struct linked_unwind *unwind, struct scan *s, bool sites,
                        struct rewrite_result *out, struct error *e)
{
	int r = unwind_segment(f, unwind, &out->bytes, &out->size, e);
	struct error why = *e;

	if (r != SEGMENT_ENOSLOT)
		return r ? -1 : 0;
	if (!sites)
		return error_set(e, "%.300s (--sidecar DIR puts its unwind table into a file of its own)", why.text);
	out->rows = 0;
	out->unwind_bytes = 0;
	error_set(e, "%.300s (--sidecar puts it into a file of its own)", why.text);
	return unwind_missing(s, e->text);
}

int rewrite_linked(struct elf_file *f, const struct rewrite_options *o, struct scan *s, struct rewrite_result *out,
                   struct error *e)
{
	struct linked_unwind unwind = {0};
	struct linked_tables now;
	struct imv_row *imv = NULL;
	struct obj_row *obj = NULL;
	uint8_t *before = NULL, *was;
	size_t imv_count = 0, obj_count = 0;
	struct error why;
	bool sites, classic;
	int err, r;

	memset(out, 0, sizeof(*out));
	memset(s, 0, sizeof(*s));
	s->file = f;
	/* What earlier steps left. A file without tables of sites has no etched object
	 * that etch could look after at run time. */
	err = linked_tables_read(f, &now, e);
	sites = !err;
	classic = o->orc && elf_section_find(f, ETCH_SEC_ORC_IP, 1);
	if (err < 0 || (!sites && !o->orc)) {
		err = err < 0 ? -1 : 0;
		goto out;
	}
	err = -1;
	if (sites || classic) { /* bytes will change in place */
		before = malloc(f->size + 1);
		if (!before) {
			error_set(e, "out of memory");
			goto out;
		}
		memcpy(before, f->bytes, f->size);
	}
	/* Start from what the linker wrote, so that twice is once. */
	if (sites && sites_unbake(f, &now, e))
		goto out;
	/* Unwind rows from the code, or the table that is there. */
	r = o->orc ? unwind_linked(f, o, out, &unwind, e) : linked_unwind_read(f, &unwind, e);
	if (r < 0 || (o->orc && r > 0 && (!sites || !o->imv)))
		goto out;
	why = *e;
	/* Sites, or the tables that are there. */
	if (sites && o->imv) {
		if (imv_pass(f, &now, s, out, &imv, &imv_count, &obj, &obj_count, e))
			goto out;
	} else if (sites) {
		memcpy(f->bytes, before, f->size);
		linked_tables_free(&now); /* it forgot what was baked */
		if (linked_tables_read(f, &now, e) || imv_keep(&now, &imv, &imv_count, &obj, &obj_count, e))
			goto out;
	}
	if (o->orc && (unwind_say_lost(s, out) || (r > 0 && unwind_missing(s, why.text))))
		goto out;
	/* Tables last: they say what has been done. */
	if (classic && linked_orc_sort(f, &out->orc_sorted, e))
		goto out;
	if (sites && (o->imv || now.moved) &&
	    linked_tables_write(f, &now, imv, imv_count, obj, obj_count, &unwind, &out->bytes, &out->size, e))
		goto out;
	if (!out->bytes && o->orc && unwind.count && unwind_write(f, &unwind, s, sites && o->imv, out, e))
		goto out;
	err = 0;
	was = before ? before : f->bytes;
	if (!out->bytes && before && memcmp(before, f->bytes, f->size)) {
		out->bytes = malloc(f->size + 1);
		out->size = f->size;
		if (!out->bytes)
			err = error_set(e, "out of memory");
		else
			memcpy(out->bytes, f->bytes, f->size);
	} else if (out->bytes && out->size == f->size && !memcmp(out->bytes, was, f->size)) {
		free(out->bytes);
		out->bytes = NULL;
	}
out:
	linked_tables_free(&now);
	linked_unwind_free(&unwind);
	free(imv);
	free(obj);
	free(before);
	return err;
}
