/* SPDX-License-Identifier: MIT */
/* etch inspect summary: how many sites, what is armed, what stayed a load or an indirect
 * call and why; how large the unwind table is and what it covers. */
#include "inspect/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tally {
	const char *what;
	size_t count;
};

/* Loads, or calls. */
struct tallies {
	size_t all, sites, live;
	struct tally kept[64]; /* those that stay as they are, by reason */
	size_t kept_count;
};

struct counts {
	struct tallies loads, calls;
	size_t immediates, stores, escapes;
	struct tally states[8]; /* of the calls that are sites: "direct" and so on */
	size_t state_count;
};

static int tally_order(const void *a, const void *b)
{
	const struct tally *x = a, *y = b;

	return x->count != y->count ? (x->count > y->count ? -1 : 1) : strcmp(x->what, y->what);
}

static void tally_add(struct tally *list, size_t room, size_t *count, const char *what)
{
	size_t i;

	for (i = 0; i < *count; i++)
		if (!strcmp(list[i].what, what))
			break;
	if (i == room)
		return;
	if (i == *count)
		list[(*count)++] = (struct tally){what, 0};
	list[i].count++;
}

static void count(const struct view *v, struct counts *c)
{
	static const char *const states[] = {"direct", "nop", "mov", "body", "indirect"};
	size_t i;

	memset(c, 0, sizeof(*c));
	for (i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		c->states[c->state_count++] = (struct tally){states[i], 0};
	for (i = 0; i < v->scan.site_count; i++) {
		const struct site *s = &v->scan.sites[i];
		struct tallies *t = s->kind == SITE_LOAD ? &c->loads : &c->calls;
		const char *why;

		c->stores += s->kind == SITE_STORE;
		c->escapes += s->kind == SITE_ESCAPE;
		if (!site_kind_is_patched(s->kind))
			continue;
		t->all++;
		t->sites += !s->reason;
		if (site_is_live(&v->scan, s, &why))
			t->live++;
		else
			tally_add(t->kept, sizeof(t->kept) / sizeof(t->kept[0]), &t->kept_count, why);
		if (s->kind == SITE_LOAD)
			c->immediates += view_is_baked(v, s->addr);
		else if (!s->reason)
			tally_add(c->states, sizeof(c->states) / sizeof(c->states[0]), &c->state_count, view_state(v, s));
	}
	qsort(c->loads.kept, c->loads.kept_count, sizeof(c->loads.kept[0]), tally_order);
	qsort(c->calls.kept, c->calls.kept_count, sizeof(c->calls.kept[0]), tally_order);
}

static const struct column object_columns[] = {
	{"object", false, false}, {"size", true, false},  {"loads", true, false},      {"live", true, false},
	{"calls", true, false},   {"live_calls", true, false}, {"armed", false, false}, {"because", false, false},
};

static void objects_list(const struct view *v, struct listing *l)
{
	bool linked = !elf_is_object(&v->file);
	size_t i, k;

	listing_init(l, object_columns, sizeof(object_columns) / sizeof(object_columns[0]));
	for (i = 0; i < v->scan.objects.count; i++) {
		const struct object *o = &v->scan.objects.list[i];
		size_t all[2] = {0, 0}, live[2] = {0, 0}; /* loads, calls */
		const char *why;

		for (k = 0; k < v->scan.site_count; k++) {
			const struct site *s = &v->scan.sites[k];

			if (s->object != (int32_t)i || !site_kind_is_patched(s->kind))
				continue;
			all[s->kind == SITE_CALL]++;
			live[s->kind == SITE_CALL] += site_is_live(&v->scan, s, &why);
		}
		listing_add(l, "%s", o->name);
		if (o->section)
			listing_add(l, "%" PRIu64, o->size);
		else
			listing_add(l, "-");
		listing_add(l, "%zu", all[0]);
		listing_add(l, "%zu", live[0]);
		listing_add(l, "%zu", all[1]);
		listing_add(l, "%zu", live[1]);
		if (linked)
			listing_add(l, !o->armed ? "no" : v->tables.flags & ETCH_MODULE_LINKED ? "yes" : "at start-up");
		else
			listing_add(l, o->facts || !o->section ? "no" : "decided by the link step");
		listing_add(l, "%s", linked ? (o->unarmed ? o->unarmed : "no store, no escape")
		            : !o->section ? "defined elsewhere"
		            : o->facts == (ETCH_OBJ_STORED | ETCH_OBJ_ESCAPED) ? "stored to plainly, and its address escapes"
		            : o->facts & ETCH_OBJ_STORED ? "stored to plainly"
		            : o->facts & ETCH_OBJ_ESCAPED ? "its address escapes" : "nothing seen against it here");
	}
}

/* ---- the unwind table ------------------------------------------------------ */

struct unwind_counts {
	uint64_t text, covered;  /* bytes of code; of those with a row that is not UNDEF */
	size_t source[4];        /* rows that are not UNDEF, by enum etch_row_source */
	size_t undefined;        /* rows that are */
};

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void unwind_count(const struct unwind_view *u, struct unwind_counts *c)
{
	size_t i, k = 0;

	memset(c, 0, sizeof(*c));
	for (i = 0; i < u->space.count; i++)
		c->text += u->space.list[i].size;
	for (i = 0; i + 1 < u->rows.count; i++) {
		const struct row *r = &u->rows.rows[i];
		size_t s;

		if (r->rule.kind == ETCH_RULE_UNDEF) {
			c->undefined++;
			continue;
		}
		c->source[r->source & 3]++;
		while (k < u->space.count && u->space.list[k].addr + u->space.list[k].size <= r->addr)
			k++;
		for (s = k; s < u->space.count && u->space.list[s].addr < r[1].addr; s++) {
			uint64_t from = larger(r->addr, u->space.list[s].addr);
			uint64_t to = smaller(r[1].addr, u->space.list[s].addr + u->space.list[s].size);

			c->covered += to > from ? to - from : 0;
		}
	}
}

static double percent(uint64_t part, uint64_t whole) { return whole ? 100.0 * (double)part / (double)whole : 0; }

static struct json_object *unwind_json(const struct unwind_view *u, const struct unwind_counts *c)
{
	struct json_object *o, *from;
	unsigned i;

	if (!u->table)
		return NULL;
	o = json_object_new_object();
	from = json_object_new_object();
	json_object_object_add(o, "encoding", json_object_new_string(u->table));
	json_object_object_add(o, "rows", json_object_new_int64((int64_t)u->row_count));
	json_object_object_add(o, "bytes", json_object_new_int64((int64_t)u->bytes));
	json_object_object_add(o, "text", json_object_new_int64((int64_t)c->text));
	json_object_object_add(o, "covered", json_object_new_int64((int64_t)c->covered));
	json_object_object_add(o, "map", json_object_new_int(u->header.map_shift ? 1 << u->header.map_shift : 0));
	for (i = 0; i < 4; i++)
		json_object_object_add(from, row_source_text(i), json_object_new_int64((int64_t)c->source[i]));
	json_object_object_add(o, "undefined_rows", json_object_new_int64((int64_t)c->undefined));
	json_object_object_add(o, "sources", u->sources ? json_object_get(from) : NULL);
	json_object_put(from);
	return o;
}

static void unwind_text(const struct unwind_view *u, const struct unwind_counts *c)
{
	unsigned i;

	if (!u->table) {
		printf("  no unwind table (etch inspect orc shows what one would say)\n");
		return;
	}
	printf("  unwind table (%s): %zu rows in %" PRIu64 " bytes, %.2f a row, %.2f%% of %" PRIu64 " bytes of text; ",
	       u->table, u->row_count, u->bytes, u->row_count ? (double)u->bytes / (double)u->row_count : 0,
	       percent(u->bytes, c->text), c->text);
	if (u->header.map_shift)
		printf("return-address map of %u bytes\n", 1u << u->header.map_shift);
	else
		printf("no return-address map\n");
	printf("    %.3f%% of the text has a row", percent(c->covered, c->text));
	for (i = 0; i < 4 && u->sources; i++)
		printf("%s %zu %s", i ? "," : "; rows from", c->source[i], row_source_text(i));
	printf("; %zu undefined%s\n", c->undefined, u->sources ? "" : " (" ETCH_SEC_SOURCE " was stripped)");
}

static void unwind_tsv(const struct unwind_view *u, const struct unwind_counts *c)
{
	unsigned i;

	printf("unwind_encoding\t%s\n", u->table ? u->table : "none");
	if (!u->table)
		return;
	printf("unwind_rows\t%zu\nunwind_bytes\t%" PRIu64 "\nunwind_text\t%" PRIu64 "\nunwind_covered\t%" PRIu64
	       "\nunwind_map\t%u\nunwind_undefined_rows\t%zu\n",
	       u->row_count, u->bytes, c->text, c->covered, u->header.map_shift ? 1u << u->header.map_shift : 0, c->undefined);
	for (i = 0; i < 4 && u->sources; i++)
		printf("unwind_source: %s\t%zu\n", row_source_text(i), c->source[i]);
}

/* ---- all of it ------------------------------------------------------------- */

static struct json_object *kept_json(const struct tallies *t)
{
	struct json_object *list = json_object_new_array();
	size_t i;

	for (i = 0; i < t->kept_count; i++) {
		struct json_object *k = json_object_new_object();

		json_object_object_add(k, "why", json_object_new_string(t->kept[i].what));
		json_object_object_add(k, "count", json_object_new_int64((int64_t)t->kept[i].count));
		json_object_array_add(list, k);
	}
	return list;
}

static void summary_json(const struct view *v, const struct counts *c, const struct listing *objects,
                         struct json_object *unwind)
{
	struct json_object *o = json_object_new_object(), *states = json_object_new_object();
	size_t i;

	json_object_object_add(o, "file", json_name(v->path));
	json_object_object_add(o, "kind", json_object_new_string(file_kind(&v->file)));
	json_object_object_add(o, "rewritten",
	                       json_object_new_boolean((v->tables.flags & ETCH_MODULE_LINKED) != 0 ||
	                                               (elf_is_object(&v->file) &&
	                                                elf_section_find(&v->file, ETCH_SEC_OBJ, 1))));
	json_object_object_add(o, "loads", json_object_new_int64((int64_t)c->loads.all));
	json_object_object_add(o, "sites", json_object_new_int64((int64_t)c->loads.sites));
	json_object_object_add(o, "live", json_object_new_int64((int64_t)c->loads.live));
	json_object_object_add(o, "immediates", json_object_new_int64((int64_t)c->immediates));
	json_object_object_add(o, "calls", json_object_new_int64((int64_t)c->calls.all));
	json_object_object_add(o, "call_sites", json_object_new_int64((int64_t)c->calls.sites));
	json_object_object_add(o, "live_calls", json_object_new_int64((int64_t)c->calls.live));
	for (i = 0; i < c->state_count; i++)
		json_object_object_add(states, c->states[i].what, json_object_new_int64((int64_t)c->states[i].count));
	json_object_object_add(o, "call_states", states);
	json_object_object_add(o, "stores", json_object_new_int64((int64_t)c->stores));
	json_object_object_add(o, "escapes", json_object_new_int64((int64_t)c->escapes));
	json_object_object_add(o, "exceptions", json_object_new_int64((int64_t)v->fixups.count));
	json_object_object_add(o, "bytes_per_site", json_object_new_int64(sizeof(struct etch_imv)));
	json_object_object_add(o, "stay_loads", kept_json(&c->loads));
	json_object_object_add(o, "stay_calls", kept_json(&c->calls));
	json_object_object_add(o, "objects", listing_json(objects));
	json_object_object_add(o, "functions_undecoded", json_object_new_int64((int64_t)v->scan.undecoded));
	json_object_object_add(o, "unwind", unwind);
	json_print(o);
}

static void kept_text(const struct tallies *t, const char *what)
{
	size_t i;

	if (t->kept_count)
		printf("  %s\n", what);
	for (i = 0; i < t->kept_count; i++)
		printf("    %6zu  %s\n", t->kept[i].count, t->kept[i].what);
}

static void calls_text(const struct view *v, const struct counts *c)
{
	size_t i;

	printf("  %zu calls through function pointers of etched objects: %zu are sites", c->calls.all, c->calls.sites);
	if (!elf_is_object(&v->file)) {
		printf(", %zu of them can be patched live;", c->calls.live);
		for (i = 0; i < c->state_count; i++)
			printf("%s %zu %s", i ? "," : "", c->states[i].count, c->states[i].what);
	}
	putchar('\n');
}

static void exceptions_text(const struct view *v)
{
	size_t types[ETCH_EX_TYPE_LAST + 2] = {0}, i;
	unsigned type;

	if (!v->fixups.table_count)
		return;
	for (i = 0; i < v->fixups.count; i++) {
		type = v->fixups.list[i].data & 0xff;
		types[type > ETCH_EX_TYPE_LAST ? ETCH_EX_TYPE_LAST + 1 : type]++;
	}
	printf("  exception table: %zu instructions may fault;", v->fixups.count);
	for (i = 0; i <= ETCH_EX_TYPE_LAST; i++)
		printf("%s %zu %s", i ? "," : "", types[i], ex_type_name((uint32_t)i));
	printf(types[ETCH_EX_TYPE_LAST + 1] ? ", %zu malformed\n" : "\n", types[ETCH_EX_TYPE_LAST + 1]);
}

static void summary_text(const struct view *v, const struct counts *c, const struct listing *objects)
{
	bool linked = !elf_is_object(&v->file);

	if (!v->scan.objects.count) {
		printf("  no etched object (mark one with ETCHED or DEFINE_IMV of <etch/imv.h>)\n");
		return;
	}
	printf("  %zu loads of etched objects: %zu have an immediate form", c->loads.all, c->loads.sites);
	if (linked)
		printf(", %zu of them can be patched live, %zu are immediates now", c->loads.live, c->immediates);
	putchar('\n');
	if (c->calls.all)
		calls_text(v, c);
	printf("  %zu plain stores, %zu escapes of an address\n", c->stores, c->escapes);
	if (linked)
		printf("  table: %zu bytes a site, %" PRIu64 " bytes in all%s\n", sizeof(struct etch_imv),
		       (v->tables.imv_room + v->tables.pv_room) * sizeof(struct etch_imv),
		       v->tables.flags & ETCH_MODULE_LINKED ? "" : "; the link step has not run");
	kept_text(&c->loads, "loads that stay loads, and why:");
	kept_text(&c->calls, "calls that stay indirect while threads run, and why:");
	putchar('\n');
	listing_print(objects, FORMAT_TEXT);
}

static void summary_tsv(const struct view *v, const struct counts *c)
{
	size_t i;

	printf("key\tvalue\nfile\t%s\nkind\t%s\nloads\t%zu\nsites\t%zu\nlive\t%zu\nimmediates\t%zu\nstores\t%zu\n"
	       "escapes\t%zu\nbytes_per_site\t%zu\n",
	       v->path, file_kind(&v->file), c->loads.all, c->loads.sites, c->loads.live, c->immediates, c->stores,
	       c->escapes, sizeof(struct etch_imv));
	for (i = 0; i < c->loads.kept_count; i++)
		printf("stay_load: %s\t%zu\n", c->loads.kept[i].what, c->loads.kept[i].count);
	printf("calls\t%zu\ncall_sites\t%zu\nlive_calls\t%zu\n", c->calls.all, c->calls.sites, c->calls.live);
	for (i = 0; i < c->state_count; i++)
		printf("call_state: %s\t%zu\n", c->states[i].what, c->states[i].count);
	for (i = 0; i < c->calls.kept_count; i++)
		printf("stay_call: %s\t%zu\n", c->calls.kept[i].what, c->calls.kept[i].count);
}

void show_summary(const struct view *v, const struct unwind_view *u, enum format format)
{
	struct unwind_counts unwind;
	struct listing objects;
	struct counts c;

	count(v, &c);
	unwind_count(u, &unwind);
	objects_list(v, &objects);
	if (format == FORMAT_JSON) {
		summary_json(v, &c, &objects, unwind_json(u, &unwind));
	} else if (format == FORMAT_TSV) {
		summary_tsv(v, &c);
		unwind_tsv(u, &unwind);
		printf("exceptions\t%zu\n", v->fixups.count);
	} else {
		printf("%s: %s\n", v->path, file_kind(&v->file));
		unwind_text(u, &unwind);
		exceptions_text(v);
		summary_text(v, &c, &objects);
	}
	listing_free(&objects);
}
