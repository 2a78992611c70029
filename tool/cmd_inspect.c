/* SPDX-License-Identifier: MIT */
/* etch inspect: what is in a file, and why. */
#include "command.h"
#include "elf/lines.h"
#include "report/listing.h"
#include "site/bake.h"
#include "table/linked_tables.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file as a developer wants to see it. */
struct view {
	const char *path;
	struct elf_file file;
	struct linked_tables tables; /* linked files */
	struct scan scan;
	uint64_t *baked; /* addresses of the sites that are immediates, sorted */
	size_t baked_count;
};

static void help(void)
{
	printf("Usage: etch inspect [summary|sites|tables] [OPTION...] FILE...\n"
	       "\n"
	       "  summary   (default) sites, what is armed, what stayed a load and why, table size\n"
	       "  sites     each instruction that touches an etched object: address, length, kind\n"
	       "            (load, store, escape), object, offset and size of the bytes it reads,\n"
	       "            form, live or why not; for people also state, function and source line\n"
	       "  tables    the entries of __imv and __etch_obj (linked files)\n"
	       "\n"
	       "      --format FORMAT   text (default), tsv (one row a line, with a header) or json\n"
	       "      --json            the same as --format json\n"
	       "  -h, --help\n"
	       "\n"
	       "Addresses are hexadecimal without 0x: virtual addresses in programs and libraries,\n"
	       "offsets in the section in object files. A load is live when it lies in one aligned\n"
	       "8-byte word, so that one store can replace it while threads run.\n"
	       "Exit status: 0, or 2 when a file could not be used.\n");
}

/* ---- loading ------------------------------------------------------------- */

static int word_order(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int view_load_linked(struct view *v, struct error *e)
{
	size_t i;

	if (linked_tables_read(&v->file, &v->tables, e) < 0)
		return -1;
	v->baked = calloc(v->tables.imv_count + 1, sizeof(*v->baked));
	if (!v->baked)
		return error_set(e, "out of memory");
	for (i = 0; i < v->tables.imv_count; i++)
		if (v->tables.imv[i].entry.flags & ETCH_IMV_BAKED)
			v->baked[v->baked_count++] = v->tables.imv[i].site;
	if (v->baked_count)
		qsort(v->baked, v->baked_count, sizeof(*v->baked), word_order);
	/* Looked at as the linker wrote it, like the link step does. */
	if (sites_unbake(&v->file, &v->tables, e))
		return -1;
	if (scan_linked_file(&v->scan, &v->file, &v->tables)) {
		*e = v->scan.error;
		return -1;
	}
	if (v->tables.flags & ETCH_MODULE_LINKED)
		sites_unlisted(&v->scan, &v->tables);
	objects_judge(&v->scan, &v->tables);
	return 0;
}

static int view_load(struct view *v, const char *path, struct error *e)
{
	memset(v, 0, sizeof(*v));
	v->path = path;
	if (elf_open(&v->file, path, e))
		return -1;
	if (!elf_is_object(&v->file))
		return view_load_linked(v, e);
	if (scan_object_file(&v->scan, &v->file, NULL)) {
		*e = v->scan.error;
		return -1;
	}
	return 0;
}

static void view_free(struct view *v)
{
	linked_tables_free(&v->tables);
	scan_free(&v->scan);
	elf_close(&v->file);
	free(v->baked);
}

static bool is_baked(const struct view *v, const struct site *s)
{
	return s->kind == SITE_LOAD && v->baked_count &&
	       bsearch(&s->addr, v->baked, v->baked_count, sizeof(*v->baked), word_order);
}

static const char *file_kind(const struct view *v)
{
	return elf_is_object(&v->file) ? "object" : v->file.eh.e_type == ET_EXEC ? "program"
	       : elf_is_pie(&v->file) ? "program (PIE)" : "shared object";
}

/* ---- sites --------------------------------------------------------------- */

static const struct column site_columns[] = {
	{"address", false, false}, {"length", true, false}, {"kind", false, false}, {"object", false, false},
	{"offset", true, false},   {"size", true, false},   {"form", false, false}, {"live", false, false},
	{"state", false, true},    {"function", false, true}, {"source", false, true},
};

static void sites_list(const struct view *v, struct listing *l)
{
	static const char *const kinds[] = {"load", "store", "escape"};
	struct lines *lines = v->scan.site_count ? lines_open(&v->file) : NULL;
	size_t i;

	listing_init(l, site_columns, sizeof(site_columns) / sizeof(site_columns[0]));
	for (i = 0; i < v->scan.site_count; i++) {
		const struct site *s = &v->scan.sites[i];
		char form[32] = "-", where[256], source[256];
		const char *why;
		bool live = s->kind == SITE_LOAD && site_is_live(&v->scan, s, &why);

		if (s->kind == SITE_LOAD && !s->reason)
			insn_form_name(s->entry.form, form, sizeof(form));
		elf_describe(&v->file, s->section, s->addr, where, sizeof(where));
		if (s->in_data)
			snprintf(source, sizeof(source), "-");
		else
			lines_find(lines, s->section, s->addr, source, sizeof(source));
		listing_add(l, "%" PRIx64, s->addr);
		listing_add(l, "%u", s->len);
		listing_add(l, "%s", kinds[s->kind]);
		listing_add(l, "%s", v->scan.objects.list[s->object].name);
		if (s->off_known)
			listing_add(l, "%" PRId64, s->off);
		else
			listing_add(l, "-");
		if (s->kind == SITE_ESCAPE)
			listing_add(l, "-");
		else
			listing_add(l, "%u", s->size);
		listing_add(l, "%s", form);
		if (s->kind == SITE_LOAD)
			listing_add(l, live ? "yes" : "no: %s", live ? "" : why);
		else
			listing_add(l, s->kind == SITE_STORE ? "no: a plain store" :
			            s->in_data ? "no: a data word holds the address" : "no: takes the address");
		listing_add(l, "%s", is_baked(v, s) ? "immediate" : s->kind == SITE_LOAD ? "load" : "-");
		listing_add(l, "%s", where);
		listing_add(l, "%s", source);
	}
	lines_close(lines);
}

static void show_sites(const struct view *v, enum format format)
{
	struct listing l;

	sites_list(v, &l);
	if (format == FORMAT_JSON) {
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "file", json_name(v->path));
		json_object_object_add(o, "kind", json_object_new_string(file_kind(v)));
		json_object_object_add(o, "sites", listing_json(&l));
		json_print(o);
	} else if (format == FORMAT_TEXT && !l.cell_count) {
		printf("%s: no instruction touches an etched object\n", v->path);
	} else {
		listing_print(&l, format);
	}
	listing_free(&l);
}

/* ---- summary ------------------------------------------------------------- */

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
		c->baked += is_baked(v, s);
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

static void summary_json(const struct view *v, const struct counts *c, const struct listing *objects)
{
	struct json_object *o = json_object_new_object(), *kept = json_object_new_array();
	size_t i;

	json_object_object_add(o, "file", json_name(v->path));
	json_object_object_add(o, "kind", json_object_new_string(file_kind(v)));
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
	json_print(o);
}

static void summary_text(const struct view *v, const struct counts *c, const struct listing *objects)
{
	bool linked = !elf_is_object(&v->file);
	size_t i;

	printf("%s: %s\n", v->path, file_kind(v));
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
	       v->path, file_kind(v), c->loads, c->sites, c->live, c->baked, c->stores, c->escapes,
	       sizeof(struct etch_imv));
	for (i = 0; i < c->kept_count; i++)
		printf("stay_load: %s\t%zu\n", c->kept[i].what, c->kept[i].count);
}

static void show_summary(const struct view *v, enum format format)
{
	struct listing objects;
	struct counts c;

	count(v, &c);
	objects_list(v, &objects);
	if (format == FORMAT_JSON)
		summary_json(v, &c, &objects);
	else if (format == FORMAT_TSV)
		summary_tsv(v, &c);
	else
		summary_text(v, &c, &objects);
	listing_free(&objects);
}

/* ---- tables -------------------------------------------------------------- */

static const struct column imv_columns[] = {
	{"site", false, false}, {"refers", false, false}, {"form", false, false},   {"register", true, false},
	{"base", true, false},  {"length", true, false},  {"address", false, false}, {"flags", false, false},
};
static const struct column obj_columns[] = {
	{"kind", false, false}, {"address", false, false}, {"size", true, false},
	{"ref", false, false},  {"flags", false, false},   {"name", false, false},
};

static void imv_list(const struct view *v, struct listing *l)
{
	static const char *const addressing[] = {"pc", "absolute", "register", "?"};
	size_t i;

	listing_init(l, imv_columns, sizeof(imv_columns) / sizeof(imv_columns[0]));
	for (i = 0; i < v->tables.imv_count; i++) {
		const struct imv_row *r = &v->tables.imv[i];
		struct site key = {.addr = r->site};
		bool baked = is_baked(v, &key), got = r->entry.flags & ETCH_IMV_GOT;
		char form[32];

		insn_form_name(r->entry.form, form, sizeof(form));
		listing_add(l, "%" PRIx64, r->site);
		listing_add(l, "%" PRIx64, r->obj);
		listing_add(l, "%s", form);
		listing_add(l, "%u", etch_imv_reg(&r->entry));
		if (etch_imv_addressing(&r->entry) == ETCH_ADDR_BASE)
			listing_add(l, "%u", etch_imv_base(&r->entry));
		else
			listing_add(l, "-");
		listing_add(l, "%u", etch_imv_len(&r->entry));
		listing_add(l, "%s", addressing[etch_imv_addressing(&r->entry)]);
		listing_add(l, "%s", baked && got ? "baked,got" : baked ? "baked" : got ? "got" : "-");
	}
}

static void obj_list(const struct view *v, struct listing *l)
{
	static const char *const kinds[] = {"none", "object", "store", "escape"};
	size_t i;

	listing_init(l, obj_columns, sizeof(obj_columns) / sizeof(obj_columns[0]));
	for (i = 0; i < v->tables.obj_count; i++) {
		const struct obj_row *r = &v->tables.obj[i];
		char flags[64] = "";

		if (r->kind == ETCH_OBJ_OBJECT) {
			strcat(flags, r->flags & ETCH_OBJ_STORED ? ",stored" : "");
			strcat(flags, r->flags & ETCH_OBJ_ESCAPED ? ",escaped" : "");
			strcat(flags, r->flags & ETCH_OBJ_ARMED ? ",armed" : "");
			strcat(flags, r->flags & ETCH_OBJ_SHARED ? ",shared" : "");
			strcat(flags, r->flags & ETCH_OBJ_OPEN ? ",open" : "");
		} else {
			strcat(flags, r->flags & ETCH_OBJ_GOT ? ",got" : "");
		}
		listing_add(l, "%s", kinds[r->kind]);
		listing_add(l, "%" PRIx64, r->addr);
		listing_add(l, "%" PRIu64, r->size);
		listing_add(l, "%" PRIx64, r->ref);
		listing_add(l, "%s", flags[0] ? flags + 1 : "-");
		listing_add(l, "%s", r->name ? r->name : "-");
	}
}

static int show_tables(const struct view *v, enum format format)
{
	struct listing imv, obj;

	imv_list(v, &imv);
	obj_list(v, &obj);
	if (format == FORMAT_JSON) {
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "file", json_name(v->path));
		json_object_object_add(o, "linked", json_object_new_boolean(v->tables.flags & ETCH_MODULE_LINKED));
		json_object_object_add(o, "moved", json_object_new_boolean(v->tables.moved));
		json_object_object_add(o, "imv_address", json_object_new_int64((int64_t)v->tables.imv_addr));
		json_object_object_add(o, "imv_room", json_object_new_int64((int64_t)v->tables.imv_room));
		json_object_object_add(o, "obj_address", json_object_new_int64((int64_t)v->tables.obj_addr));
		json_object_object_add(o, "obj_room", json_object_new_int64((int64_t)v->tables.obj_room));
		json_object_object_add(o, "imv", listing_json(&imv));
		json_object_object_add(o, "obj", listing_json(&obj));
		json_print(o);
	} else {
		printf("%s" ETCH_SEC_IMV ": %zu entries of %zu bytes, room for %" PRIu64 ", at %" PRIx64 "%s%s\n",
		       format == FORMAT_TSV ? "# " : "", v->tables.imv_count, sizeof(struct etch_imv), v->tables.imv_room,
		       v->tables.imv_addr, v->tables.moved ? ", in the etch segment" : "",
		       v->tables.flags & ETCH_MODULE_LINKED ? "" : ", not sorted yet: no link step");
		listing_print(&imv, format);
		printf("%s" ETCH_SEC_OBJ ": %zu records of %zu bytes, room for %" PRIu64 ", at %" PRIx64 "\n",
		       format == FORMAT_TSV ? "# " : "\n", v->tables.obj_count, sizeof(struct etch_obj),
		       v->tables.obj_room, v->tables.obj_addr);
		listing_print(&obj, format);
	}
	listing_free(&imv);
	listing_free(&obj);
	return 0;
}

/* ---- the command --------------------------------------------------------- */

int cmd_inspect(int argc, char **argv)
{
	static const struct option longs[] = {
		{"format", required_argument, NULL, 'f'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0, 0, NULL, 0},
	};
	enum format format = FORMAT_TEXT;
	const char *what = "summary";
	int c, i, status = EXIT_CLEAN;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (c) {
		case 'f':
			if (!strcmp(optarg, "tsv"))
				format = FORMAT_TSV;
			else if (!strcmp(optarg, "json"))
				format = FORMAT_JSON;
			else if (strcmp(optarg, "text")) {
				fprintf(stderr, "etch: --format is text, tsv or json, not '%s'\n", optarg);
				return EXIT_UNUSABLE;
			}
			break;
		case 'j':
			format = FORMAT_JSON;
			break;
		case 'h':
			help();
			return EXIT_CLEAN;
		default:
			fprintf(stderr, "etch: see etch inspect --help\n");
			return EXIT_UNUSABLE;
		}
	}
	argv += optind;
	argc -= optind;
	if (argc && (!strcmp(argv[0], "summary") || !strcmp(argv[0], "sites") || !strcmp(argv[0], "tables"))) {
		what = argv[0];
		argv++;
		argc--;
	}
	if (!argc) {
		fprintf(stderr, "etch: inspect what? see etch inspect --help\n");
		return EXIT_UNUSABLE;
	}
	for (i = 0; i < argc; i++) {
		struct view v;
		struct error e;

		if (view_load(&v, argv[i], &e)) {
			fprintf(stderr, "etch: %s: %s\n", argv[i], e.text);
			status = EXIT_UNUSABLE;
		} else if (!strcmp(what, "tables") && elf_is_object(&v.file)) {
			fprintf(stderr, "etch: %s: is an object file: its tables are relocations yet (see inspect sites)\n",
			        argv[i]);
			status = EXIT_UNUSABLE;
		} else if (!strcmp(what, "sites")) {
			show_sites(&v, format);
		} else if (!strcmp(what, "tables")) {
			show_tables(&v, format);
		} else {
			show_summary(&v, format);
		}
		view_free(&v);
	}
	return status;
}
