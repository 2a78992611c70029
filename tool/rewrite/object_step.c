/* SPDX-License-Identifier: MIT */
/* The object step of `etch rewrite`: adds tables of sites, objects and unwind rows to an object file, which
 * the linker then combines. Code bytes do not change. */
#include "rewrite/rewrite.h"
#include "support/memory.h"
#include "kernel/kernel_orc.h"
#include "site/native_sites.h"
#include "table/object_tables.h"

#include <stdlib.h>
#include <string.h>

/*
 * How a table refers to an object: by section if it is defined here and cannot be replaced; by symbol if
 * another definition may win (weak, unique) or it is undefined here; by GOT slot if the
 * code uses the slot.
 */
static struct table_ref object_ref(const struct scan *s, const struct object *o, int64_t off, bool slot)
{
	const struct elf_symbol *y = &s->file->symbols[o->symbol];

	if (slot)
		return (struct table_ref){REF_SLOT, o->symbol, 0};
	if (!o->section || y->bind == STB_WEAK || y->bind == STB_GNU_UNIQUE)
		return (struct table_ref){REF_SYMBOL, o->symbol, (o->section ? (int64_t)(o->addr - y->value) : 0) + off};
	return (struct table_ref){REF_SECTION, o->section, (int64_t)o->addr + off};
}

/* True if an earlier site gives the same fact: one per object, kind and section is enough. */
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
		ok = object_tables_object(
			t, o->section, o->addr, (uint32_t)o->size,
			(o->value    ? ETCH_OBJ_VALUE
		     : o->shared ? ETCH_OBJ_SHARED
		                 : 0) |
				(s->file->symbols[o->symbol].bind != STB_LOCAL && !object_is_imv(o) ? ETCH_OBJ_OPEN : 0),
			o->name);
	}
	for (i = 0; i < s->site_count && ok; i++) {
		const struct site *site = &s->sites[i];
		const struct object *o = &s->objects.list[site->object];
		bool slot = site->entry.flags & ETCH_IMV_GOT;
		struct table_ref ref;

		if (site_kind_is_patched(site->kind)) {
			if (site->reason || !(site->kind == SITE_LOAD ? t->imv : t->pv))
				continue;
			ref = object_ref(s, o, site->off, slot);
			ok = object_tables_site(t, site->section, site->addr, &site->entry, &site->more, &ref);
		} else if (!fact_known(s, i)) {
			/* An object of another module can only be found through its slot. */
			ref = object_ref(s, o, 0, slot && !o->section);
			ok = object_tables_fact(t, site->section, site->addr,
			                        site->kind == SITE_STORE ? ETCH_OBJ_STORE : ETCH_OBJ_ESCAPE, &ref);
		}
	}
	return ok ? 0 : error_set(e, "out of memory");
}

/* Sets the flags in __pv_native, in f's bytes, according to the sequences in the code.
 * 1: one changed; 0; or -1 and a message. */
static int natives_flag(struct elf_file *f, struct scan *s, struct error *e)
{
	struct natives found;
	int changed = 0;
	size_t i;

	if (natives_check(f, &found, s)) {
		*e = s->error;
		return -1;
	}
	for (i = 0; i < found.count; i++) {
		const struct native *x = &found.list[i];
		uint8_t *record;

		if (x->flags == x->was)
			continue;
		if (!changed && elf_bytes_own(f, e)) {
			changed = -1;
			break;
		}
		if (elf_section_alone(f, x->section, e)) {
			changed = -1;
			break;
		}
		record = (uint8_t *)f->sections[x->section].data + x->at;
		record[offsetof(struct etch_native, flags)] = x->flags;
		changed = 1;
	}
	natives_free(&found);
	return changed;
}

/* Makes a copy of f's current bytes the output. */
static int bytes_copy(const struct elf_file *f, struct rewrite_result *out, struct error *e)
{
	out->bytes = malloc(f->size + 1);
	if (!out->bytes)
		return error_set(e, "out of memory");
	memcpy(out->bytes, f->bytes, f->size);
	out->size = f->size;
	return 0;
}

/* 1: the file already has these unwind rows: frees *orc, so that none are written. 0: it has others or none: marks the
 * sections to be emptied. -1 and a message. */
static int orc_pass_present(const struct elf_file *f, struct object_orc *orc, bool *emptied, struct error *e)
{
	bool *mine = calloc(f->section_count, sizeof(*mine));
	int same = mine ? object_orc_present(f, orc, mine, e) : error_set(e, "out of memory");
	uint32_t i;

	for (i = 0; i < f->section_count && !same; i++)
		emptied[i] |= mine[i];
	if (same > 0)
		object_orc_free(orc);
	free(mine);
	return same;
}

/* The same, but if the file has no room for the sections of rows besides `others`, no rows are written: a finding, and
 * the sites are rewritten all the same. */
static int orc_pass(const struct elf_file *f, struct object_orc *orc, size_t others, bool *emptied, struct scan *s,
                    struct rewrite_result *out, struct error *e)
{
	int same = orc_pass_present(f, orc, emptied, e);
	struct error why;

	if (same || !orc->count || !object_write_room(f, orc->count + others, &why))
		return same;
	object_orc_free(orc);
	out->rows = 0;
	out->unwind_bytes = 0;
	if (scan_finding_add(s, "ETCH-T001", 0, 0, "no unwind table: the file %.200s", why.text))
		return -1;
	return orc_pass_present(f, orc, emptied, e);
}

/* Refuses kernel objects. The kernel reads sections of these names in a module, in a format that depends on the
 * release; objtool writes them. They must be neither replaced nor added. */
static int orc_of_kernel(const struct elf_file *f, struct error *e)
{
	if (kernel_orc_present(f))
		return error_set(e, "has " ETCH_SEC_ORC " entries that are not etch's: --only imv leaves them alone");
	if (elf_section_find(f, ".gnu.linkonce.this_module", 1))
		return error_set(e, "is a kernel module, and the kernel would take " ETCH_SEC_ORC
		                    " for its own: --only imv adds none");
	return 0;
}

/* Refuses a section of code or data with the name of a table: tables are found by name, and it would be replaced. */
static int names_check(const struct elf_file *f, struct error *e)
{
	static const char *const names[] = {ETCH_SEC_IMV, ETCH_SEC_PV, ETCH_SEC_OBJ, ETCH_SEC_ORC_IP, ETCH_SEC_ORC};
	size_t i, k;

	for (i = 1; i < f->section_count; i++)
		for (k = 0; k < sizeof(names) / sizeof(*names); k++)
			if (f->sections[i].data && elf_name_is(f->sections[i].name, names[k]) &&
			    (f->sections[i].sh.sh_flags & (SHF_EXECINSTR | SHF_WRITE) || f->sections[i].sh.sh_type != SHT_PROGBITS))
				return error_set(e, "section %zu is named %s, but is not an etch table", i, names[k]);
	return 0;
}

/*
 * Joins the new sections: those of tables that differ from an earlier run's. The tables of sites come
 * first, since references between new sections (TO_NEW) are indices, and only these tables have any.
 */
static struct new_section *sections_join(const struct object_tables *tables, const struct object_orc *orc,
                                         size_t *count, struct error *e)
{
	struct new_section *all = calloc(tables->count + orc->count + 1, sizeof(*all));

	if (!all) {
		error_set(e, "out of memory");
		return NULL;
	}
	if (tables->count)
		memcpy(all, tables->sections, tables->count * sizeof(*all));
	if (orc->count)
		memcpy(all + tables->count, orc->sections, orc->count * sizeof(*all));
	*count = tables->count + orc->count;
	return all;
}

int rewrite_object(struct elf_file *f, const struct rewrite_options *o, const struct name_set *others, struct scan *s,
                   struct rewrite_result *out, struct error *e)
{
	struct object_tables tables = {.imv = o->imv, .pv = o->pv};
	struct object_orc orc = {0};
	struct findings faults = {0};
	struct new_section *all = NULL;
	bool *emptied = calloc(f->section_count, sizeof(*emptied));
	int err = -1, sites_same = 1, orc_same = 1, flagged = 0;
	size_t i, count;

	memset(out, 0, sizeof(*out));
	memset(s, 0, sizeof(*s));
	s->file = f;
	if (!emptied)
		return error_set(e, "out of memory");
	if ((o->orc && orc_of_kernel(f, e)) || names_check(f, e))
		goto out;
	/* Find the etched objects and every instruction that accesses one. */
	if ((o->imv || o->pv) && scan_object_file(s, f, others)) {
		*e = s->error;
		goto out;
	}
	flagged = o->pv ? natives_flag(f, s, e) : 0;
	if (flagged < 0)
		goto out;
	for (i = 0; i < s->site_count; i++) {
		struct rewrite_counts *c = s->sites[i].kind == SITE_LOAD ? &out->loads : &out->calls;

		if (!site_kind_is_patched(s->sites[i].kind))
			continue;
		c->sites += !s->sites[i].reason;
		c->kept += s->sites[i].reason != NULL;
	}
	if (o->ex && rewrite_has_ex(f) && (rewrite_ex(f, &faults, out, e) || rewrite_ex_say(s, &faults)))
		goto out;
	/* Make unwind rows from the code. */
	if (o->orc && (unwind_object(f, o, out, &orc, e) || unwind_say_lost(s, out)))
		goto out;
	/* Make the tables, except those that an earlier run left in the same form: this makes the
	 * rewrite idempotent. */
	if (o->imv || o->pv) {
		if (tables_build(s, &tables, e))
			goto out;
		sites_same = object_tables_present(f, &tables, emptied, e);
	}
	if (sites_same > 0) {
		memset(emptied, 0, f->section_count * sizeof(*emptied));
		object_tables_free(&tables);
	}
	if (sites_same >= 0 && o->orc)
		orc_same = orc_pass(f, &orc, tables.count, emptied, s, out, e);
	if (sites_same < 0 || orc_same < 0)
		goto out;
	if (sites_same && orc_same) {
		err = flagged ? bytes_copy(f, out, e) : 0;
		goto out;
	}
	all = sections_join(&tables, &orc, &count, e);
	big_trim(f->size);
	if (all)
		err = object_write(f, all, count, emptied, &out->bytes, &out->size, e);
out:
	object_tables_free(&tables);
	object_orc_free(&orc);
	findings_free(&faults);
	free(all);
	free(emptied);
	return err;
}
