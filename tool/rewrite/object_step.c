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
 * Chooses how a table refers to an object: by section if the object is defined here and cannot be replaced, by symbol
 * if another definition may win (weak, unique) or it is undefined here, and by GOT slot if the code uses the slot.
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

/* Does an earlier site give the same fact? One fact for each object, kind and section is enough. */
static bool fact_known(const struct scan *s, size_t i)
{
	const struct site *x = &s->sites[i];
	size_t k = i;

	while (k-- && s->sites[k].section == x->section)
		if (s->sites[k].kind == x->kind && s->sites[k].object == x->object)
			return true;
	return false;
}

static uint8_t object_flags(const struct scan *s, const struct object *o)
{
	bool open = s->file->symbols[o->symbol].bind != STB_LOCAL && !object_is_imv(o);
	uint8_t flags = open ? ETCH_OBJ_OPEN : 0;

	if (o->value)
		flags |= ETCH_OBJ_VALUE;
	else if (o->shared)
		flags |= ETCH_OBJ_SHARED;
	return flags;
}

/* Makes the entries of objects, sites and facts. Returns 0, or -1 and a message. */
static int tables_build(const struct scan *s, struct object_tables *t, struct error *e)
{
	size_t i;

	for (i = 0; i < s->objects.defined; i++) {
		const struct object *o = &s->objects.list[i];
		const struct etch_obj x = {.size = (uint32_t)o->size,
		                           .kind = ETCH_OBJ_OBJECT,
		                           .flags = object_flags(s, o),
		                           .more = o->dense ? ETCH_OBJ_DENSE : 0};

		if (o->size > UINT32_MAX)
			return error_set(e, "etched object %s is larger than 4 GiB", o->name);
		object_tables_object(t, o->section, o->addr, &x, o->name);
	}
	for (i = 0; i < s->site_count; i++) {
		const struct site *site = &s->sites[i];
		const struct object *o = &s->objects.list[site->object];
		bool slot = site->entry.flags & ETCH_IMV_GOT;
		struct table_ref ref;

		if (site_kind_is_patched(site->kind)) {
			if (site->reason || !(site->kind == SITE_LOAD ? t->imv : t->pv))
				continue;
			ref = object_ref(s, o, site->off, slot);
			object_tables_site(t, site->section, site->addr, &site->entry, &site->more, &ref);
		} else if (!fact_known(s, i)) {
			/* An object of another module can be found only through its slot. */
			ref = object_ref(s, o, 0, slot && !o->section);
			object_tables_fact(t, site->section, site->addr,
			                   site->kind == SITE_STORE ? ETCH_OBJ_STORE : ETCH_OBJ_ESCAPE, &ref);
		}
	}
	return 0;
}

/* Sets the flags in __pv_native, in f's bytes, according to the sequences in the code. Sets *changed if one was
 * different. Returns 0, or -1 and a message. */
static int native_flags_set(struct elf_file *f, struct scan *s, bool *changed, struct error *e)
{
	struct natives found;
	int err = 0;
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
		if (!*changed)
			elf_bytes_own(f);
		err = elf_section_alone(f, x->section, e) ? -1 : 0;
		if (err)
			break;
		record = (uint8_t *)f->sections[x->section].data + x->at;
		record[offsetof(struct etch_native, flags)] = x->flags;
		*changed = true;
	}
	natives_free(&found);
	return err;
}

/* Makes a copy of f's current bytes the output. */
static void bytes_copy(const struct elf_file *f, struct rewrite_result *out)
{
	out->bytes = big_zero(f->size + 1, 1);
	big_copy(out->bytes, f->bytes, f->size);
	out->size = f->size;
}

/* The state of the object step. */
struct object_step {
	struct elf_file *f;
	const struct rewrite_options *o;
	struct scan *s;
	struct rewrite_result *out;
	struct error *e;
	struct object_tables tables;
	struct object_unwind unwind;
	bool *emptied; /* for each section, whether it is to be emptied */
};

/* Marks more sections to be emptied. */
static void emptied_add(struct object_step *t, const bool *more)
{
	for (uint32_t i = 0; i < t->f->section_count; i++)
		t->emptied[i] |= more[i];
}

/* If the file already has the rows of t->unwind.orc, sets *same and frees them, so that none are written. If it has
 * other rows or none, marks their sections to be emptied. Returns 0, or -1 and a message. */
static int orc_compare(struct object_step *t, bool *same)
{
	bool *mine = mem_zero(t->f->section_count, sizeof(*mine));
	int present = object_orc_present(t->f, &t->unwind.orc, mine, t->e);

	*same = present > 0;
	if (*same)
		object_orc_free(&t->unwind.orc);
	else if (!present)
		emptied_add(t, mine);
	free(mine);
	return present < 0 ? -1 : 0;
}

/* Prepares the sections of unwind rows. Sets *same if the file has them already, in which case none are written. If the
 * file has no space for them besides the tables of sites, adds a finding, and empties the sections of an earlier run;
 * the sites are rewritten nevertheless. Returns 0, or -1 and a message. */
static int orc_pass(struct object_step *t, bool *same)
{
	struct error why;

	if (orc_compare(t, same))
		return -1;
	if (*same || !t->unwind.orc.count || !object_write_capacity(t->f, t->unwind.orc.count + t->tables.count, &why))
		return 0;
	object_orc_free(&t->unwind.orc);
	t->out->unwind.rows = 0;
	t->out->unwind.unwind_bytes = 0;
	scan_finding_add(t->s, "ETCH-T001", 0, 0, "no unwind table: the file %.200s", why.text);
	return orc_compare(t, same);
}

/* Prepares .sframe. If the file has the same section already, or --sframe was not given, sets *same, and what the file
 * has stays. If it has another one or none, marks its sections to be emptied. Returns 0, or -1 and a message. */
static int sframe_pass(struct object_step *t, bool *same)
{
	bool *mine;
	int present;

	*same = !t->o->unwind.sframe;
	if (*same)
		return 0;
	mine = mem_zero(t->f->section_count, sizeof(*mine));
	present = object_sframe_present(t->f, &t->unwind.sframe, mine, t->e);
	*same = present > 0;
	if (*same)
		object_sframe_free(&t->unwind.sframe);
	else if (!present)
		emptied_add(t, mine);
	free(mine);
	return present < 0 ? -1 : 0;
}

/* Refuses kernel objects. objtool writes sections of these names, and the kernel reads them in a module, in a format
 * that depends on the release. They must be neither replaced nor added. */
static int orc_of_kernel(const struct elf_file *f, struct error *e)
{
	if (kernel_orc_present(f))
		return error_set(e, "has " ETCH_SEC_ORC " entries that are not etch's: --only imv leaves them alone");
	if (elf_section_find(f, ".gnu.linkonce.this_module", 1))
		return error_set(e, "is a kernel module, and the kernel would take " ETCH_SEC_ORC
		                    " for its own: --only imv adds none");
	return 0;
}

/* Refuses a section of code or data that has the name of a table: tables are found by name, so it would be replaced. */
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
 * Makes one list of the new sections: those of the tables that differ from the tables of an earlier run. The tables of
 * sites come first, since references between new sections (TO_NEW) are indices, and only these tables have such
 * references.
 */
static struct new_section *sections_join(const struct object_step *t, size_t *count)
{
	struct new_section *all = mem_zero(t->tables.count + t->unwind.orc.count + 1, sizeof(*all));

	if (t->tables.count)
		memcpy(all, t->tables.sections, t->tables.count * sizeof(*all));
	if (t->unwind.orc.count)
		memcpy(all + t->tables.count, t->unwind.orc.sections, t->unwind.orc.count * sizeof(*all));
	*count = t->tables.count + t->unwind.orc.count;
	if (t->unwind.sframe.section)
		all[(*count)++] = *t->unwind.sframe.section;
	return all;
}

/* Finds the etched objects and every instruction that accesses one, and counts the sites. Sets *changed if bytes of the
 * file have changed. Returns 0, or -1 and a message. */
static int sites_find(struct object_step *t, const struct name_set *others, bool *changed)
{
	const struct rewrite_options *o = t->o;
	struct scan *s = t->s;
	size_t i;

	if ((o->imv || o->pv) && scan_object_file(s, t->f, others)) {
		*t->e = s->error;
		return -1;
	}
	if (o->pv && native_flags_set(t->f, s, changed, t->e))
		return -1;
	for (i = 0; i < s->site_count; i++) {
		struct rewrite_counts *c = s->sites[i].kind == SITE_LOAD ? &t->out->loads : &t->out->calls;

		if (!site_kind_is_patched(s->sites[i].kind))
			continue;
		c->sites += !s->sites[i].reason;
		c->kept += s->sites[i].reason != NULL;
	}
	return 0;
}

/* Checks the exception table of the file. Returns 0, or -1 and a message. */
static int ex_pass(struct object_step *t)
{
	struct findings faults = {0};
	int err = 0;

	if (t->o->ex && rewrite_has_ex(t->f))
		err = rewrite_ex(t->f, &faults, t->out, t->e);
	if (!err)
		findings_take(&t->s->findings, &faults);
	findings_free(&faults);
	return err;
}

/* Makes the tables, except those that an earlier run wrote in the same form, which makes the rewrite idempotent. Sets
 * *same if these are all. Returns 0, or -1 and a message. */
static int tables_pass(struct object_step *t, bool *same)
{
	bool sites_same = true, orc_same = true, sframe_same = true;

	if (t->o->imv || t->o->pv) {
		int present;

		if (tables_build(t->s, &t->tables, t->e))
			return -1;
		present = object_tables_present(t->f, &t->tables, t->emptied, t->e);
		if (present < 0)
			return -1;
		sites_same = present > 0;
	}
	if (sites_same) {
		memset(t->emptied, 0, t->f->section_count * sizeof(*t->emptied));
		object_tables_free(&t->tables);
	}
	if ((t->o->orc && orc_pass(t, &orc_same)) || sframe_pass(t, &sframe_same))
		return -1;
	*same = sites_same && orc_same && sframe_same;
	return 0;
}

/* Makes the file with the new sections the output. Returns 0, or -1 and a message. */
static int sections_write(struct object_step *t)
{
	size_t count;
	struct new_section *all = sections_join(t, &count);
	/* Tables of sites need all of libetch that changes sites, even without the link step. */
	const char *wanted = t->tables.count ? ETCH_PART_OBJECTS_SYMBOL : NULL;
	int err;

	big_trim(t->f->size);
	err = object_write(t->f,
	                   &(struct object_change){.added = all, .count = count, .emptied = t->emptied, .wanted = wanted},
	                   &t->out->bytes, &t->out->size, t->e);
	free(all);
	return err;
}

int rewrite_object(struct elf_file *f, const struct rewrite_options *o, const struct name_set *others, struct scan *s,
                   struct rewrite_result *out, struct error *e)
{
	struct object_step t = {.f = f, .o = o, .s = s, .out = out, .e = e, .tables = {.imv = o->imv, .pv = o->pv}};
	bool changed = false, same;
	int err = -1;

	memset(out, 0, sizeof(*out));
	memset(s, 0, sizeof(*s));
	s->file = f;
	if ((o->orc && orc_of_kernel(f, e)) || names_check(f, e))
		return -1;
	t.emptied = mem_zero(f->section_count, sizeof(*t.emptied));
	if (sites_find(&t, others, &changed) || ex_pass(&t))
		goto out;
	if (o->orc) {
		if (unwind_object(f, &o->unwind, &out->unwind, &t.unwind, e))
			goto out;
		lost_rows_finding_add(s, out);
	}
	if (tables_pass(&t, &same))
		goto out;
	if (same && changed)
		bytes_copy(f, out);
	err = same ? 0 : sections_write(&t);
out:
	object_tables_free(&t.tables);
	object_orc_free(&t.unwind.orc);
	object_sframe_free(&t.unwind.sframe);
	free(t.emptied);
	return err;
}
