/* SPDX-License-Identifier: MIT */
/* The object step: what an object file says about etched objects becomes tables
 * that the linker carries along. Code bytes stay as they are. */
#include "rewrite.h"
#include "table/object_tables.h"

#include <stdlib.h>
#include <string.h>

/*
 * By section where the definition here is the one that counts; by symbol where
 * another may win (weak, unique) or there is none here; through the slot where
 * the code goes through it.
 */
static struct table_ref object_ref(const struct scan *s, const struct object *o, int64_t off, bool slot)
{
	const struct elf_symbol *y = &s->file->symbols[o->symbol];

	if (slot)
		return (struct table_ref){REF_SLOT, o->symbol, 0};
	if (!o->section || y->bind == STB_WEAK || y->bind == STB_GNU_UNIQUE)
		return (struct table_ref){REF_SYMBOL, o->symbol, off};
	return (struct table_ref){REF_SECTION, o->section, (int64_t)o->addr + off};
}

/* One fact per object, kind and section is enough. */
static bool fact_known(const struct scan *s, size_t i)
{
	const struct site *x = &s->sites[i];
	size_t k = i;

	while (k-- && s->sites[k].section == x->section)
		if (s->sites[k].kind == x->kind && s->sites[k].object == x->object)
			return true;
	return false;
}

static int tables_build(const struct scan *s, struct object_tables *t, struct error *e)
{
	bool ok = true;
	size_t i;

	for (i = 0; i < s->objects.defined && ok; i++) {
		const struct object *o = &s->objects.list[i];

		if (o->size > UINT32_MAX)
			return error_set(e, "etched object %s is larger than 4 GiB", o->name);
		ok = object_tables_object(t, o->section, o->addr, (uint32_t)o->size,
		                          (o->shared ? ETCH_OBJ_SHARED : 0) |
		                          (s->file->symbols[o->symbol].bind != STB_LOCAL && !object_is_imv(o)
		                           ? ETCH_OBJ_OPEN : 0), o->name);
	}
	for (i = 0; i < s->site_count && ok; i++) {
		const struct site *site = &s->sites[i];
		const struct object *o = &s->objects.list[site->object];
		bool slot = site->entry.flags & ETCH_IMV_GOT;
		struct table_ref ref;

		if (site->kind == SITE_LOAD && !site->reason) {
			ref = object_ref(s, o, site->off, slot);
			ok = object_tables_site(t, site->section, site->addr, &site->entry, &ref);
		} else if (site->kind != SITE_LOAD && !fact_known(s, i)) {
			/* Another module's object is only to be found through its slot. */
			ref = object_ref(s, o, 0, slot && !o->section);
			ok = object_tables_fact(t, site->section, site->addr,
			                        site->kind == SITE_STORE ? ETCH_OBJ_STORE : ETCH_OBJ_ESCAPE, &ref);
		}
	}
	return ok ? 0 : error_set(e, "out of memory");
}

int rewrite_object(const struct elf_file *f, const struct name_set *others, struct scan *s,
                   struct rewrite_result *out, struct error *e)
{
	struct object_tables tables = {0};
	bool *emptied = calloc(f->section_count, sizeof(*emptied));
	int err = -1, same;
	size_t i;

	memset(out, 0, sizeof(*out));
	if (!emptied)
		return error_set(e, "out of memory");
	/* Find the objects and every instruction that touches one. */
	if (scan_object_file(s, f, others)) {
		*e = s->error;
		goto out;
	}
	for (i = 0; i < s->site_count; i++) {
		if (s->sites[i].kind != SITE_LOAD)
			continue;
		out->sites += !s->sites[i].reason;
		out->kept += s->sites[i].reason != NULL;
	}
	/* Make the tables, and stop here if an earlier run left the same ones:
	 * rewriting twice is rewriting once. */
	if (tables_build(s, &tables, e))
		goto out;
	same = object_tables_present(f, &tables, emptied, e);
	if (same < 0)
		goto out;
	err = same ? 0 : object_write(f, tables.sections, tables.count, emptied, &out->bytes, &out->size, e);
out:
	object_tables_free(&tables);
	free(emptied);
	return err;
}
