/* SPDX-License-Identifier: MIT */
/*
 * Computes the figures of `etch inspect summary`: the kind of file, its code and tables, the number of sites, the loads
 * and indirect calls that are not patched with the reasons, and the findings of etch check.
 */
#include "inspect/view_summary.h"

#include "kernel/kernel.h"
#include "support/memory.h"
#include "support/progress.h"
#include "support/terminal.h"
#include "site/in_place.h"
#include "table/sframe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int tally_order(const void *a, const void *b)
{
	const struct tally *x = a, *y = b;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return strcmp(x->what, y->what);
}

static void tally_add(struct tally *list, size_t capacity, size_t *count, const char *what)
{
	size_t i;

	for (i = 0; i < *count; i++)
		if (!strcmp(list[i].what, what))
			break;
	if (i == capacity)
		return;
	if (i == *count)
		list[(*count)++] = (struct tally){what, 0};
	list[i].count++;
}

/* Counts sites by kind and state, and those that are not live by reason. */
static void sites_count(struct summary *c)
{
	static const char *const states[] = {"direct", "nop", "mov", "body", "indirect"};
	const struct view *v = c->view;
	size_t i;

	for (i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		c->states[c->state_count++] = (struct tally){states[i], 0};
	for (i = 0; i < v->scan.site_count; i++) {
		const struct site *s = &v->scan.sites[i];
		struct tallies *t = s->kind == SITE_LOAD ? &c->loads : &c->calls;
		enum site_patch how;
		const char *why;

		c->stores += s->kind == SITE_STORE;
		c->escapes += s->kind == SITE_ESCAPE;
		if (!site_kind_is_patched(s->kind))
			continue;
		t->all++;
		t->sites += !s->reason;
		how = site_patch(&v->scan, s, &why);
		t->swap += how == SITE_BY_SWAP;
		if (how != SITE_NOT_PATCHED)
			t->live++;
		else
			tally_add(t->kept, sizeof(t->kept) / sizeof(t->kept[0]), &t->kept_count, why);
		if (s->kind == SITE_LOAD) {
			c->immediates += view_is_baked(v, s->addr);
			c->unfit += !strcmp(view_state(v, s), "unfit");
		} else if (!s->reason) {
			tally_add(c->states, sizeof(c->states) / sizeof(c->states[0]), &c->state_count, view_state(v, s));
		}
	}
	for (i = 0; v->in_place && i < v->tables.inline_count; i++) {
		if (in_place_is_dropped(&v->file, &v->tables.inlines[i]))
			continue;
		c->in_place++;
		c->in_place_now += v->in_place[i];
	}
	qsort(c->loads.kept, c->loads.kept_count, sizeof(c->loads.kept[0]), tally_order);
	qsort(c->calls.kept, c->calls.kept_count, sizeof(c->calls.kept[0]), tally_order);
}

static const struct column object_columns[] = {
	{"object", false}, {"size", true},       {"loads", true},  {"live", true},
	{"calls", true},   {"live_calls", true}, {"armed", false}, {"because", false},
};

/*
 * Returns the record in __etch_obj about an object of a linked file, or null. It is all that libetch knows about the
 * object at start-up.
 */
static const struct obj_row *record_of(const struct view *v, const struct object *o)
{
	size_t i;

	for (i = 0; i < v->tables.obj_count; i++)
		if (v->tables.obj[i].kind == ETCH_OBJ_OBJECT && v->tables.obj[i].addr == o->addr)
			return &v->tables.obj[i];
	return NULL;
}

static bool is_open(const struct obj_row *record) { return record && (record->flags & ETCH_OBJ_OPEN); }

/* Returns a text that says whether an object is armed, and from when on. */
static const char *armed_text(const struct view *v, const struct object *o, const struct obj_row *record)
{
	if (elf_is_object(&v->file))
		return o->facts || !o->section ? "no" : "decided by the link step";
	if (!o->armed)
		return "no";
	if (v->tables.flags & ETCH_MODULE_LINKED)
		return "yes";
	return record && !is_open(record) ? "at start-up" : "no";
}

static const char *linked_because(const struct view *v, const struct object *o, const struct obj_row *record)
{
	bool baked = v->tables.flags & ETCH_MODULE_LINKED;

	if (o->unarmed_why)
		return o->unarmed_why;
	if (!baked && !record)
		return "etch rewrite has not been run";
	if (!baked && is_open(record))
		return "the link step has not run, and other files could store to it";
	return "no store, no escape";
}

static const char *unlinked_because(const struct object *o)
{
	if (!o->section)
		return "defined elsewhere";
	if (o->facts == (ETCH_OBJ_STORED | ETCH_OBJ_ESCAPED))
		return "stored to directly, and its address escapes";
	if (o->facts & ETCH_OBJ_STORED)
		return "stored to directly";
	return o->facts & ETCH_OBJ_ESCAPED ? "its address escapes" : "no store or escape in this file";
}

/* The numbers of sites of an object. Element 0 is for loads, element 1 for calls. */
struct site_counts {
	size_t all[2], live[2];
};

static struct site_counts *sites_of_objects(const struct view *v)
{
	struct site_counts *counts = mem_zero(v->scan.objects.count + 1, sizeof(*counts));
	const char *why;
	size_t k;

	for (k = 0; k < v->scan.site_count; k++) {
		const struct site *s = &v->scan.sites[k];

		if (s->object < 0 || (size_t)s->object >= v->scan.objects.count || !site_kind_is_patched(s->kind))
			continue;
		counts[s->object].all[s->kind == SITE_CALL]++;
		counts[s->object].live[s->kind == SITE_CALL] += site_is_live(&v->scan, s, &why);
	}
	return counts;
}

/* Lists the objects with their counts of sites. */
static void objects_list(const struct view *v, struct listing *l)
{
	bool linked = !elf_is_object(&v->file);
	struct site_counts *counts = sites_of_objects(v);
	size_t i;

	listing_init(l, object_columns, sizeof(object_columns) / sizeof(object_columns[0]));
	for (i = 0; i < v->scan.objects.count; i++) {
		const struct object *o = &v->scan.objects.list[i];
		const size_t *all = counts[i].all, *live = counts[i].live;
		const struct obj_row *record = linked ? record_of(v, o) : NULL;

		listing_add(l, "%s", o->name);
		if (o->section)
			listing_add(l, "%" PRIu64, o->size);
		else
			listing_add(l, "-");
		listing_add(l, "%zu", all[0]);
		listing_add(l, "%zu", live[0]);
		listing_add(l, "%zu", all[1]);
		listing_add(l, "%zu", live[1]);
		listing_add(l, "%s", armed_text(v, o, record));
		listing_add(l, "%s", linked ? linked_because(v, o, record) : unlinked_because(o));
	}
	free(counts);
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/*
 * Returns the number of bytes in [from, to) that are not padding. *k keeps the position in the list of padding for the
 * next call, which must have higher addresses.
 */
static uint64_t bytes_unfilled(const struct frames *fr, uint64_t from, uint64_t to, size_t *k)
{
	uint64_t bytes = to > from ? to - from : 0;
	size_t i;

	while (*k < fr->filled_count && fr->filled[*k].addr + fr->filled[*k].size <= from)
		++*k;
	for (i = *k; i < fr->filled_count && fr->filled[i].addr < to; i++)
		bytes -= smaller(fr->filled[i].addr + fr->filled[i].size, to) - larger(fr->filled[i].addr, from);
	return bytes;
}

/* Counts the bytes of code, of padding, and of rows by source. */
static void coverage_count(const struct row_list *rows, const struct code_space *space, const struct frames *fr,
                           struct coverage *c)
{
	size_t i, k = 0, filled = 0;

	for (i = 0; i < space->count; i++)
		c->text += space->list[i].size;
	c->padding = fr->padding;
	for (i = 0; i + 1 < rows->count; i++) {
		const struct row *r = &rows->rows[i];
		uint64_t bytes = 0;
		size_t s;

		if (r->rule.kind == ETCH_RULE_UNDEF) {
			c->undefined_rows++;
			continue;
		}
		while (k < space->count && space->list[k].addr + space->list[k].size <= r->addr)
			k++;
		for (s = k; s < space->count && space->list[s].addr < r[1].addr; s++) {
			uint64_t from = larger(r->addr, space->list[s].addr);
			uint64_t to = smaller(r[1].addr, space->list[s].addr + space->list[s].size);

			bytes += bytes_unfilled(fr, from, to, &filled);
		}
		c->source_rows[r->source & 3]++;
		c->source[r->source & 3] += bytes;
		c->covered += bytes;
	}
}

static int found_order(const void *a, const void *b)
{
	const struct tally *x = a, *y = b;
	enum severity s = catalogue_find(x->what)->severity, t = catalogue_find(y->what)->severity;

	if (s != t)
		return s > t ? -1 : 1;
	return strcmp(x->what, y->what);
}

static void findings_count(struct summary *s)
{
	const struct findings *l = &s->view->findings;
	size_t i;

	s->found = mem_zero(catalogue_count, sizeof(*s->found));
	for (i = 0; i < l->count; i++) {
		const struct catalogue_entry *x = catalogue_find(l->list[i].id);

		if (!x)
			continue;
		s->severities[x->severity]++;
		tally_add(s->found, catalogue_count, &s->found_count, x->id);
	}
	if (s->found_count)
		qsort(s->found, s->found_count, sizeof(*s->found), found_order);
}

static void sizes_count(struct summary *s)
{
	static const char *const tables[] = {".eh_frame",     ".eh_frame_hdr", ".gcc_except_table", ETCH_SEC_UNWIND,
	                                     ETCH_SEC_ORC_IP, ETCH_SEC_ORC,    ETCH_SEC_ORC_LOOKUP, ETCH_SEC_IMV,
	                                     ETCH_SEC_OBJ,    ETCH_SEC_PV,     SFRAME_SECTION};
	const struct elf_file *f = &s->view->file;
	size_t i;

	_Static_assert(sizeof(tables) / sizeof(tables[0]) == SIZES, "one size a table");
	for (i = 0; i < SIZES; i++) {
		uint64_t bytes = 0;
		uint32_t k = 0;

		while ((k = elf_section_find(f, tables[i], k + 1)))
			bytes += f->sections[k].sh.sh_size;
		if (!bytes)
			continue;
		s->sizes[s->size_count].section = tables[i];
		s->sizes[s->size_count++].bytes = bytes;
	}
}

uint64_t summary_size(const struct summary *s, const char *section)
{
	size_t i;

	for (i = 0; i < s->size_count; i++)
		if (!strcmp(s->sizes[i].section, section))
			return s->sizes[i].bytes;
	return 0;
}

bool summary_is_rewritten(const struct summary *s)
{
	const struct view *v = s->view;

	return v->tables.flags & ETCH_MODULE_LINKED ||
	       (elf_is_object(&v->file) && elf_section_find(&v->file, ETCH_SEC_OBJ, 1));
}

static void build_id_take(struct summary *s)
{
	const uint8_t *id;
	size_t n = elf_build_id(&s->view->file, &id), i;

	for (i = 0; i < n && 2 * i + 2 < sizeof(s->build_id); i++)
		snprintf(s->build_id + 2 * i, 3, "%02x", id[i]);
}

static void exceptions_count(struct summary *s)
{
	const struct fixups *x = &s->view->fixups;
	size_t i;

	for (i = 0; i < x->count; i++) {
		unsigned type = x->list[i].data & 0xff;

		s->exceptions[type > ETCH_EX_TYPE_LAST ? ETCH_EX_TYPE_LAST + 1 : type]++;
	}
}

static void summary_make(struct summary *s)
{
	const struct elf_file *f = &s->view->file;

	build_id_take(s);
	elf_hardening_read(f, &s->hardening);
	s->kernel = kernel_sign(f);
	s->symbols = elf_section_find(f, ".symtab", 1) != 0;
	s->dwarf = elf_section_find(f, ".debug_info", 1) || elf_section_find(f, ".zdebug_info", 1);
	s->code_sections = s->view->space.count;
	sites_count(s);
	exceptions_count(s);
	coverage_count(&s->view->frames.rows, &s->view->frames.space, &s->view->frames, &s->code);
	if (s->unwind->table)
		coverage_count(&s->unwind->rows, &s->unwind->space, &s->view->frames, &s->table);
	sizes_count(s);
	objects_list(s->view, &s->objects);
	findings_count(s);
}

/* Prints the summary as text that is not wider than the terminal. */
static void summary_fold(const struct summary *s)
{
	FILE *out = stdout;
	char *text;
	size_t size;

	stdout = mem_stream(&text, &size);
	summary_text(s);
	mem_stream_close(stdout, &text);
	stdout = out;
	terminal_fold(text);
	free(text);
}

int show_summary(const char *path, int jobs, enum format format, struct error *e)
{
	struct unwind_view unwind = {0};
	struct view v;
	struct summary s = {.view = &v, .unwind = &unwind};
	int err = view_load_checked(&v, path, jobs, e);

	progress_end();
	if (!err)
		err = unwind_view_load(&v.file, UNWIND_TABLE, &unwind, e);
	if (!err)
		summary_make(&s);
	if (!err && format == FORMAT_JSON)
		json_print(summary_json(&s));
	else if (!err && format == FORMAT_TSV)
		summary_tsv(&s);
	else if (!err)
		summary_fold(&s);
	listing_free(&s.objects);
	free(s.found);
	unwind_view_free(&unwind);
	view_free(&v);
	return err;
}
