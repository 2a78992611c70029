/* SPDX-License-Identifier: MIT */
/* The link step of `etch rewrite`: finds the sites of a linked file, bakes them, sorts the tables, adds the unwind
 * table. */
#include "support/memory.h"
#include "rewrite/rewrite.h"

#include "site/in_place.h"
#include "site/native_sites.h"
#include "site/armed_objects.h"
#include "site/site_rows.h"
#include "table/object_orc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Restores the bytes at the sites of a table that --only does not select, which were unbaked for the analysis. */
static void rows_restore(struct elf_file *f, const uint8_t *before, const struct imv_row *rows, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		unsigned len = etch_imv_len(&rows[i].entry);
		uint8_t *p = (uint8_t *)elf_at(f, rows[i].site, len);

		if (p && (rows[i].entry.flags & ETCH_IMV_BAKED))
			memcpy(p, before + (p - f->bytes), len);
	}
}

static void in_place_restore(struct elf_file *f, const uint8_t *before, const struct linked_tables *now)
{
	size_t i;

	for (i = 0; i < now->inline_count; i++) {
		uint8_t *p = (uint8_t *)elf_at(f, now->inlines[i].site, ETCH_INLINE_LEN);

		if (p && !in_place_is_dropped(f, &now->inlines[i]))
			memcpy(p, before + (p - f->bytes), ETCH_INLINE_LEN);
	}
}

/*
 * Checks that the rows of all sites and objects fit. It makes them only to count them: no object is judged and no site
 * is baked yet, so their flags are not right, and sites_pass() makes them again. The count has to come first, because
 * if the tables cannot grow, only the sites that the object step listed are kept, a finding tells about the others, and
 * objects without a record stay unarmed.
 */
static int tables_fit(struct scan *s, struct elf_file *f, const struct linked_tables *now,
                      const struct rewrite_options *o, struct linked_rows *rows, struct error *e)
{
	int fits;
	size_t left;

	rows_make(s, now, o->imv, o->pv, rows);
	fits = linked_tables_capacity(f, now, rows, e);
	if (fits)
		return fits < 0 ? -1 : 0;
	left = sites_unlisted(s, now);
	scan_finding_add(s, "ETCH-I004", 0, 0, "%zu sites are left alone: the tables cannot grow (%s)", left, e->text);
	return 0;
}

static uint64_t record_at(const struct elf_file *f, const struct native *x)
{
	return f->sections[x->section].sh.sh_addr + x->at;
}

/* Sets the flags in __pv_native according to the sequences that are in the code now. */
static int natives_flag(struct elf_file *f, struct linked_tables *now, struct scan *s, struct error *e)
{
	struct natives found;
	size_t i, k = 0;
	bool judged;

	if (natives_check(f, &found, s)) {
		*e = s->error;
		return -1;
	}
	for (i = 0; i < now->native_count; i++) { /* both lists are in the order of the file */
		while (k < found.count && record_at(f, &found.list[k]) < now->natives[i].at)
			k++;
		judged = k < found.count && record_at(f, &found.list[k]) == now->natives[i].at;
		linked_native_flag(f, now, i, judged ? found.list[k].flags : 0);
	}
	natives_free(&found);
	return 0;
}

static void sites_count(const struct scan *s, enum site_kind kind, struct rewrite_counts *c)
{
	enum site_patch how;
	const char *why;
	size_t i;

	for (i = 0; i < s->site_count; i++) {
		const struct site *site = &s->sites[i];

		if (site->kind != kind)
			continue;
		c->kept += site->reason != NULL;
		c->sites += !site->reason;
		how = site_patch(s, site, &why);
		c->live += how != SITE_NOT_PATCHED;
		c->swap += how == SITE_BY_SWAP;
	}
}

/* ---- the exception table, which the object step checks too ---- */

bool rewrite_has_ex(const struct elf_file *f) { return elf_section_find(f, ETCH_SEC_EXTABLE, 1) != 0; }

int rewrite_ex(struct elf_file *f, struct findings *findings, struct rewrite_result *out, struct error *e)
{
	struct code_space space = {0};
	struct fixups x = {0};
	int err;

	space_build(f, &space);
	err = fixups_read(f, &space, &x, e) || ex_table_check(f, &space, &x, findings, e) ||
	      (!elf_is_object(f) && ex_table_sort(f, &x, &out->ex_dropped, e));
	out->ex_entries = x.count;
	fixups_free(&x);
	space_free(&space);
	return err ? -1 : 0;
}

/* ---- the steps of the link step ---- */

/* The state of the link step. */
struct link_step {
	struct elf_file *f;
	const struct rewrite_options *o;
	struct scan *s;
	struct rewrite_result *out;
	struct error *e;
	bool sites;               /* the file has tables of sites */
	bool bakes;               /* it has such tables, and --only selects sites: the tables are regenerated */
	bool ex;                  /* its exception table is checked and sorted */
	const uint8_t *before;    /* its bytes before changes in place; null: no step changes bytes in place */
	struct linked_tables now; /* the tables in the file */
	/* Those to be written: first copies of the existing ones (rows_keep()), of which rows_make() replaces those that
	 * are selected, once to count them (tables_fit()), and once when all is decided (sites_pass()). */
	struct linked_rows rows;
	struct linked_unwind unwind;
	struct findings faults;
};

/* Scans all code, since the object step misses sites: those of LTO, of plain extern declarations, and of files that it
 * never saw. Scans again after the operands of compares have been swapped. */
static int sites_scan(struct link_step *t)
{
	int err = scan_linked_file(t->s, t->f, &t->now);

	if (!err && t->o->imv && t->s->commuted_count) {
		compares_commute(t->s, t->f);
		scan_free(t->s);
		t->s->file = t->f;
		err = scan_linked_file(t->s, t->f, &t->now);
	}
	if (err)
		*t->e = t->s->error;
	return err;
}

/* Finds sites, decides which objects are armed, bakes the sites, and makes the rows of the tables. On entry t->rows has
 * the existing rows, which stay for tables that are not selected. */
static int sites_pass(struct link_step *t)
{
	const struct rewrite_options *o = t->o;
	struct rewrite_result *out = t->out;
	struct elf_file *f = t->f;
	struct scan *s = t->s;

	if (sites_scan(t) || (o->pv && natives_flag(f, &t->now, s, t->e)) || tables_fit(s, f, &t->now, o, &t->rows, t->e))
		return -1;
	/* The loads and calls of an object to which any code stores, or whose address escapes, stay as they are; the sites
	 * of the other objects get their first value. */
	objects_judge(s, &t->now);
	if ((o->imv && sites_bake(s, SITE_LOAD, f, &t->now, &out->loads.baked, t->e)) ||
	    (o->pv && (sites_bake(s, SITE_CALL, f, &t->now, &out->calls.baked, t->e) ||
	               in_place_bake(s, f, &t->now, &out->in_place, &out->in_place_baked, t->e))))
		return -1;
	rows_make(s, &t->now, o->imv, o->pv, &t->rows); /* anew: tables_fit() made them before all this was known */
	if (o->imv)
		sites_count(s, SITE_LOAD, &out->loads);
	if (o->pv)
		sites_count(s, SITE_CALL, &out->calls);
	return 0;
}

/* Reports a missing unwind table as a finding; the sites are rewritten nevertheless. */
static void unwind_missing(struct scan *s, const char *why)
{
	scan_finding_add(s, "ETCH-T001", 0, 0, "no unwind table: %.200s", why);
}

/*
 * Adds a segment that has only the unwind table. If there is no space for one, that is a finding in a file with sites
 * or an exception table, which is still rewritten; in any other file it is an error.
 */
static int unwind_write(struct link_step *t)
{
	int r = unwind_segment(t->f, &t->unwind, &t->out->bytes, &t->out->size, t->e);
	struct error why = *t->e;

	if (r != SEGMENT_ENOSLOT)
		return r ? -1 : 0;
	if (!t->bakes && !t->ex)
		return error_set(t->e, "%.300s (use --sidecar DIR for a separate unwind table)", why.text);
	t->out->unwind.rows = 0;
	t->out->unwind.unwind_bytes = 0;
	error_set(t->e, "%.300s (use --sidecar for a separate one)", why.text);
	unwind_missing(t->s, t->e->text);
	return 0;
}

/* Restores the sites of the tables that --only does not select. */
static void rest_restore(struct elf_file *f, const uint8_t *before, const struct rewrite_options *o,
                         const struct linked_tables *now, const struct linked_rows *rows)
{
	if (!o->imv)
		rows_restore(f, before, rows->imv, rows->imv_count);
	if (!o->pv) {
		rows_restore(f, before, rows->pv, rows->pv_count);
		in_place_restore(f, before, now);
	}
}

/* Sets the output to a copy of f's bytes if they changed in place and no step made an output, and drops an output that
 * is equal to the input `was`. `before` holds the bytes before changes in place; it is null if no step changes bytes in
 * place. */
static void output_settle(const struct elf_file *f, const uint8_t *before, const uint8_t *was,
                          struct rewrite_result *out)
{
	if (!out->bytes && before && memcmp(before, f->bytes, f->size)) {
		out->bytes = big_zero(f->size + 1, 1);
		out->size = f->size;
		big_copy(out->bytes, f->bytes, f->size);
	} else if (out->bytes && out->size == f->size && !memcmp(out->bytes, was, f->size)) {
		free(out->bytes);
		out->bytes = NULL;
	}
}

/* Reads the tables of earlier steps. Without a module descriptor libetch finds no etched object at run time, whatever
 * tables there are. Returns 0, or -1 and a message. */
static int tables_read(struct link_step *t)
{
	int r = linked_tables_read(t->f, &t->now, t->e);

	t->sites = !r && t->now.module_count;
	t->now.flags |= t->o->closed ? ETCH_MODULE_CLOSED : 0;
	for (size_t i = 0; i < t->o->init_count && r >= 0; i++)
		if (linked_init_add(t->f, &t->now, t->o->init[i], t->e))
			return -1;
	t->bakes = t->sites && (t->o->imv || t->o->pv);
	t->ex = t->o->ex && rewrite_has_ex(t->f);
	return r < 0 ? -1 : 0;
}

/* Turns the immediates, direct calls and nops of an earlier run back into the loads and calls that the compiler wrote,
 * which makes the rewrite idempotent. Makes a copy of the file's bytes first, if this or a later step changes any. */
static int unbake_pass(struct link_step *t)
{
	if (t->sites || t->ex ||
	    (t->o->orc && elf_section_find(t->f, ETCH_SEC_ORC_IP, 1))) { /* bytes will change in place */
		t->before = t->f->bytes;
		elf_bytes_own(t->f);
	}
	if (!t->sites)
		return 0;
	rows_keep(&t->now, &t->rows);
	return sites_unbake(t->f, &t->now, t->e) || in_place_unbake(t->f, &t->now, t->e) ? -1 : 0;
}

/* Makes unwind rows from the code, or keeps the existing table. If the rows fit no table, sets *missing and the reason
 * `why`, and the rest is rewritten nevertheless; if there is no rest, that is an error. Returns 0, or -1 and a
 * message. */
static int unwind_pass(struct link_step *t, bool *missing, struct error *why)
{
	int r = t->o->orc ? unwind_linked(t->f, &t->o->unwind, &t->out->unwind, &t->unwind, t->e)
	                  : linked_unwind_read(t->f, &t->unwind, t->e);

	*missing = t->o->orc && r > 0;
	if (r < 0 || (*missing && !t->bakes && !t->ex))
		return -1;
	if (*missing)
		*why = *t->e;
	return 0;
}

/* Writes the tables. This comes last, since they record what the other steps did. */
static int tables_write(struct link_step *t)
{
	const struct linked_contents contents = {&t->rows, &t->unwind};
	struct rewrite_result *out = t->out;
	bool segment; /* linked_tables_write() has made one, which has the unwind table too */

	if (t->o->orc && elf_section_find(t->f, ETCH_SEC_ORC_IP, 1) && object_orc_sort(t->f, &out->orc_sorted, t->e))
		return -1;
	if (t->sites && (t->bakes || t->now.moved) &&
	    linked_tables_write(t->f, &t->now, &contents, &out->bytes, &out->size, t->e))
		return -1;
	segment = out->bytes != NULL;
	return !segment && t->o->orc && t->unwind.count ? unwind_write(t) : 0;
}

/*
 * The order of the passes. Rows are made from the code that the compiler wrote, hence after unbake_pass() and before
 * sites_pass(), which bakes: the bytes of the table then do not depend on whether the file was rewritten before. The
 * tables of sites come after baking, since they say what is in the code. The segment is written last, with all tables.
 * What later runs have to know goes into it beside the unwind table: the functions of --init, and the note.
 */
static int link_step_run(struct link_step *t)
{
	struct error why;
	const uint8_t *was;
	bool missing;

	if (tables_read(t))
		return -1;
	if (!t->sites && !t->o->orc && !t->ex)
		return 0; /* the file has nothing of what was requested */
	if (unbake_pass(t) || (t->ex && rewrite_ex(t->f, &t->faults, t->out, t->e)))
		return -1;
	if (unwind_pass(t, &missing, &why) || (t->bakes && sites_pass(t)))
		return -1;
	if (t->sites)
		rest_restore(t->f, t->before, t->o, &t->now, &t->rows);
	findings_take(&t->s->findings, &t->faults);
	if (t->o->orc) {
		lost_rows_finding_add(t->s, t->out);
		far_code_finding_add(t->s, t->out);
	}
	if (missing)
		unwind_missing(t->s, why.text);
	was = t->before ? t->before : t->f->bytes;
	if (t->unwind.count && t->now.init_count)
		linked_unwind_init_list(&t->unwind, t->now.init, t->now.init_count);
	if (t->unwind.count)
		rewrite_note_add(&t->unwind, t->f, was, unwind_replaces(t->f, &t->o->unwind));
	if (tables_write(t))
		return -1;
	output_settle(t->f, t->before, was, t->out);
	return 0;
}

void far_code_finding_add(struct scan *s, const struct rewrite_result *r)
{
	if (r->unwind.far.bytes)
		scan_finding_add(s, "ETCH-T005", elf_section_at(s->file, r->unwind.far.at), r->unwind.far.at,
		                 "%" PRIu64
		                 " bytes of code, from here on, are too far from the rest of the code for the unwind table",
		                 r->unwind.far.bytes);
}

void lost_rows_finding_add(struct scan *s, const struct rewrite_result *r)
{
	if (r->unwind.lost)
		scan_finding_add(s, "ETCH-T002", 0, 0,
		                 "%zu unwind rows do not fit the 6 bytes of the orc encoding and are UNDEFINED in it",
		                 r->unwind.lost);
}

int rewrite_linked(struct elf_file *f, const struct rewrite_options *o, struct scan *s, struct rewrite_result *out,
                   struct error *e)
{
	struct link_step t = {.f = f, .o = o, .s = s, .out = out, .e = e};
	int err;

	memset(out, 0, sizeof(*out));
	memset(s, 0, sizeof(*s));
	s->file = f;
	if (elf_is_debug(f))
		return error_set(e, ELF_DEBUG_FILE);
	err = link_step_run(&t);
	linked_tables_free(&t.now);
	linked_unwind_free(&t.unwind);
	linked_rows_free(&t.rows);
	findings_free(&t.faults);
	return err;
}
