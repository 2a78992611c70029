/* SPDX-License-Identifier: MIT */
/* etch inspect summary: how many sites, what is armed, what stayed a load and why; how
 * large the unwind table is and what it covers. */
#include "inspect.h"
#include "site/bake.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tally {
	const char *what;
	size_t count;
};

struct counts {
	size_t loads, sites, live, baked, stores, escapes;
	struct tally kept[64]; /* loads that stay loads, by reason */
	size_t kept_count;
};

static int tally_order(const void *a, const void *b)
{
	const struct tally *x = a, *y = b;

	return x->count != y->count ? (x->count > y->count ? -1 : 1) : strcmp(x->what, y->what);
}

static void tally_add(struct counts *c, const char *what)
{
	size_t i;

	for (i = 0; i < c->kept_count; i++)
		if (!strcmp(c->kept[i].what, what))
			break;
	if (i == sizeof(c->kept) / sizeof(c->kept[0]))
		return;
	if (i == c->kept_count)
		c->kept[c->kept_count++] = (struct tally){what, 0};
	c->kept[i].count++;
}

static void count(const struct view *v, struct counts *c)
{
	size_t i;

	memset(c, 0, sizeof(*c));
	for (i = 0; i < v->scan.site_count; i++) {
		const struct site *s = &v->scan.sites[i];
		const char *why;

		c->stores += s->kind == SITE_STORE;
		c->escapes += s->kind == SITE_ESCAPE;
		if (s->kind != SITE_LOAD)
			continue;
		c->loads++;
		c->sites += !s->reason;
		c->baked += view_is_baked(v, s);
		if (site_is_live(&v->scan, s, &why))
			c->live++;
		else
			tally_add(c, why);
	}
	qsort(c->kept, c->kept_count, sizeof(c->kept[0]), tally_order);
}

static const struct column object_columns[] = {
	{"object", false, false}, {"size", true, false},    {"loads", true, false}, {"live", true, false},
	{"armed", false, false},  {"because", false, false},
};

static void objects_list(const struct view *v, struct listing *l)
{
	bool linked = !elf_is_object(&v->file);
	size_t i, k;

	listing_init(l, object_columns, sizeof(object_columns) / sizeof(object_columns[0]));
	for (i = 0; i < v->scan.objects.count; i++) {
		const struct object *o = &v->scan.objects.list[i];
		size_t loads = 0, live = 0;
		const char *why;

		for (k = 0; k < v->scan.site_count; k++) {
			const struct site *s = &v->scan.sites[k];

			if (s->object != (int32_t)i || s->kind != SITE_LOAD)
				continue;
			loads++;
			live += site_is_live(&v->scan, s, &why);
		}
		listing_add(l, "%s", o->name);
		if (o->section)
			listing_add(l, "%" PRIu64, o->size);
		else
			listing_add(l, "-");
		listing_add(l, "%zu", loads);
		listing_add(l, "%zu", live);
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

static void summary_json(const struct view *v, const struct counts *c, const struct listing *objects,
                         struct json_object *unwind)
{
	struct json_object *o = json_object_new_object(), *kept = json_object_new_array();
	size_t i;

	json_object_object_add(o, "file", json_name(v->path));
	json_object_object_add(o, "kind", json_object_new_string(file_kind(&v->file)));
	json_object_object_add(o, "rewritten",
	                       json_object_new_boolean((v->tables.flags & ETCH_MODULE_LINKED) != 0 ||
	                                               (elf_is_object(&v->file) &&
	                                                elf_section_find(&v->file, ETCH_SEC_OBJ, 1))));
	json_object_object_add(o, "loads", json_object_new_int64((int64_t)c->loads));
	json_object_object_add(o, "sites", json_object_new_int64((int64_t)c->sites));
	json_object_object_add(o, "live", json_object_new_int64((int64_t)c->live));
	json_object_object_add(o, "immediates", json_object_new_int64((int64_t)c->baked));
	json_object_object_add(o, "stores", json_object_new_int64((int64_t)c->stores));
	json_object_object_add(o, "escapes", json_object_new_int64((int64_t)c->escapes));
	json_object_object_add(o, "bytes_per_site", json_object_new_int64(sizeof(struct etch_imv)));
	for (i = 0; i < c->kept_count; i++) {
		struct json_object *k = json_object_new_object();

		json_object_object_add(k, "why", json_object_new_string(c->kept[i].what));
		json_object_object_add(k, "count", json_object_new_int64((int64_t)c->kept[i].count));
		json_object_array_add(kept, k);
	}
	json_object_object_add(o, "stay_loads", kept);
	json_object_object_add(o, "objects", listing_json(objects));
	json_object_object_add(o, "functions_undecoded", json_object_new_int64((int64_t)v->scan.undecoded));
	json_object_object_add(o, "unwind", unwind);
	json_print(o);
}

static void summary_text(const struct view *v, const struct counts *c, const struct listing *objects)
{
	bool linked = !elf_is_object(&v->file);
	size_t i;

	if (!v->scan.objects.count) {
		printf("  no etched object (mark one with ETCHED or DEFINE_IMV of <etch/imv.h>)\n");
		return;
	}
	printf("  %zu loads of etched objects: %zu have an immediate form", c->loads, c->sites);
	if (linked)
		printf(", %zu of them can be patched live, %zu are immediates now", c->live, c->baked);
	printf("\n  %zu plain stores, %zu escapes of an address\n", c->stores, c->escapes);
	if (linked)
		printf("  table: %zu bytes a site, %" PRIu64 " bytes in all%s\n", sizeof(struct etch_imv),
		       v->tables.imv_room * sizeof(struct etch_imv),
		       v->tables.flags & ETCH_MODULE_LINKED ? "" : "; the link step has not run");
	if (c->kept_count)
		printf("  loads that stay loads, and why:\n");
	for (i = 0; i < c->kept_count; i++)
		printf("    %6zu  %s\n", c->kept[i].count, c->kept[i].what);
	putchar('\n');
	listing_print(objects, FORMAT_TEXT);
}

static void summary_tsv(const struct view *v, const struct counts *c)
{
	size_t i;

	printf("key\tvalue\nfile\t%s\nkind\t%s\nloads\t%zu\nsites\t%zu\nlive\t%zu\nimmediates\t%zu\nstores\t%zu\n"
	       "escapes\t%zu\nbytes_per_site\t%zu\n",
	       v->path, file_kind(&v->file), c->loads, c->sites, c->live, c->baked, c->stores, c->escapes,
	       sizeof(struct etch_imv));
	for (i = 0; i < c->kept_count; i++)
		printf("stay_load: %s\t%zu\n", c->kept[i].what, c->kept[i].count);
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
	} else {
		printf("%s: %s\n", v->path, file_kind(&v->file));
		unwind_text(u, &unwind);
		summary_text(v, &c, &objects);
	}
	listing_free(&objects);
}
