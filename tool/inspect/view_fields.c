/* SPDX-License-Identifier: MIT */
/*
 * Implements `etch inspect fields`: shows which fields of etched objects are armed, and from when on; for the other
 * fields, shows the lines of source that prevent it.
 */
#include "dwarf/lines.h"
#include "inspect/field_guide.h"
#include "inspect/inspect.h"
#include "report/text.h"
#include "site/bake.h"
#include "site/armed_objects.h"
#include "support/memory.h"
#include "shared/search.h"
#include "support/sort.h"
#include "support/strings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PLACES_SHOWN 3  /* number of places per field that are shown without --all */
#define GUIDE_SHOWN  6  /* greatest number of lines that field_guide_print() may list without --all */
#define LINES_SHOWN  16 /* number of lines to replace that are shown without --all */
#define NO_FORM      "none of its reads has an immediate form"

static const struct column field_columns[] = {
	{"object", false}, {"field", false}, {"offset", true}, {"size", true},
	{"reads", true},   {"armed", false}, {"stores", true}, {"because", false},
};

/*
 * The time from which a field is armed. AT_START: from the start. BY_SYNC: after etch_sync. GUARDED: after etch_sync,
 * although something may store to the field later; its pages are read-only, so such a store is detected. BY_SET: once
 * calls of etch_set replace all its stores.
 */
enum when { AT_START, BY_SYNC, GUARDED, BY_SET, NEVER, WHENS };
static const char *const when_names[WHENS] = {"yes", "by etch_sync", "guarded", "no", "no"};

/*
 * Sums for one object: the numbers of its fields and of their reads, and the source lines of the stores that alone keep
 * its BY_SET fields from being armed.
 */
struct sums {
	size_t fields[WHENS], reads[WHENS]; /* reads: the number of reads that have an immediate form */
	size_t formless;                    /* number of reads without an immediate form */
	char **lines;
	size_t line_count, line_capacity;
	struct field_guide guide;
	/*
	 * For an object that is stored to and is not armed by field: the number of places that may reach any of its bytes,
	 * and the number of stores.
	 */
	size_t vague, stores;
};

/* Bytes of an object that have the same facts. */
struct field {
	int32_t object;
	uint64_t from, to;
	enum when when;
	bool whole;                /* the field is the whole object, which has facts about unknown bytes */
	const struct site **sites; /* sites of the object, in order, among which are all that may apply to the field */
	size_t site_count;
};

/* The bytes to which a site applies. */
struct span {
	uint64_t from, to, reach; /* reach: the greatest `to` of this span and of all spans before it */
	const struct site *site;
};

/* The sites of an object, sorted by their bytes, so that the sites of each field are found quickly. */
struct spans {
	struct span *list; /* sorted by `from` */
	size_t count;
	const struct site **arrays; /* the sites that apply to all arrays of the object */
	size_t array_count;
	const struct site **found; /* the result of spans_find() */
};

static bool is_read_of(const struct site *s, const struct field *f)
{
	return s->kind == SITE_LOAD && s->off_known && s->off >= 0 && (uint64_t)s->off < f->to &&
	       (uint64_t)s->off + s->size > f->from;
}

/* True if the instruction of a read has an immediate form; whether libetch can change it does not matter. */
static bool has_form(const struct site *s) { return !s->reason || !strcmp(s->reason, REASON_NOT_LINKED); }

/* Returns the number of reads of a field that have an immediate form. Sets *all to the number of all its reads. */
static size_t reads_count(const struct field *f, size_t *all)
{
	size_t i, formed = 0;

	for (i = *all = 0; i < f->site_count; i++) {
		bool read = is_read_of(f->sites[i], f);

		*all += read;
		formed += read && has_form(f->sites[i]);
	}
	return formed;
}

/* True if a site is a store or an escape that keeps this field from being armed. */
static bool is_reason(const struct view *v, const struct site *s, const struct field *f)
{
	const struct object *o = &v->scan.objects.list[f->object];
	enum reach reach;
	uint64_t from, to;
	const struct member *m;

	if (site_kind_is_patched(s->kind) || (s->recorded && !f->whole))
		return false;
	reach = site_reach(o, s, &from, &to);
	if (f->whole && o->dense)
		return f->when != NEVER || s->late;
	if (f->whole)
		return o->bounded || reach == REACH_ANY;
	if (f->when == NEVER && !s->late)
		return false;
	m = reach == REACH_ARRAYS ? member_at(&o->members, f->from) : NULL;
	return reach == REACH_ARRAYS ? m && member_is_indexed(&o->members, m)
	                             : reach == REACH_BYTES && from < f->to && f->from < to;
}

static void place_add(const struct view *v, struct lines *lines, const struct site *s, char *out, size_t size)
{
	const char *what = "";
	char where[256], source[256];
	size_t n = strlen(out);
	bool named;

	if (s->kernel)
		what = "kernel: ";
	else if (s->kind == SITE_ESCAPE)
		what = "address: ";
	view_place(v, s->section, s->addr, where, sizeof(where));
	snprintf(source, sizeof(source), "-");
	if (!s->in_data)
		lines_find_caller(lines, s->section, s->addr, source, sizeof(source));
	named = strcmp(source, "-") != 0;
	snprintf(out + n, size - n, "%s%s%s%s%s", n ? "; " : "", what, where, named ? " " : "", named ? source : "");
}

/*
 * Returns a text that lists the places which keep a field from being armed, and sets *count to their number. The caller
 * frees the text.
 */
static char *reasons(const struct view *v, struct lines *lines, const struct field *f, bool all, size_t *count)
{
	size_t i, size = 1;
	char *text;

	for (i = *count = 0; i < f->site_count; i++)
		*count += is_reason(v, f->sites[i], f);
	size += (all ? *count : PLACES_SHOWN) * 600 + 64;
	text = mem_zero(size, 1);
	for (i = *count = 0; i < f->site_count; i++)
		if (is_reason(v, f->sites[i], f) && ((*count)++ < PLACES_SHOWN || all))
			place_add(v, lines, f->sites[i], text, size);
	if (!all && *count > PLACES_SHOWN)
		snprintf(text + strlen(text), size - strlen(text), "; and %zu more (--all)", *count - PLACES_SHOWN);
	return text;
}

/* Writes the line of source of a site, or its place if the line is unknown. */
static void line_text(const struct view *v, struct lines *lines, const struct site *s, char *at, size_t size)
{
	size_t n;

	lines_find_caller(lines, s->section, s->addr, at, size);
	n = strlen(at);
	if (!strcmp(at, "-") || (n > 2 && !strcmp(at + n - 2, ":0"))) /* line 0 means that the code belongs to no line */
		view_place(v, s->section, s->addr, at, size);
}

static void line_add(const struct view *v, struct lines *lines, const struct site *s, struct sums *sums)
{
	char at[256];

	line_text(v, lines, s, at, sizeof(at));
	mem_reserve(&sums->lines, &sums->line_capacity, sums->line_count, sizeof(*sums->lines));
	sums->lines[sums->line_count++] = mem_copy(at, strlen(at) + 1);
}

/*
 * Adds reads that are not armed to the guide, with the lines that keep them from being armed. These are the lines of
 * places that apply to any byte of the object, and of places that apply to [from, to) and still count after etch_sync.
 */
static void guide_add(const struct view *v, struct lines *lines, const struct field *f, uint64_t from, uint64_t to,
                      size_t reads, struct sums *sums)
{
	const struct object *o = &v->scan.objects.list[f->object];
	struct field part = *f;
	size_t i;

	if (field_guide_is_full(&sums->guide))
		return;
	part.whole = false;
	part.from = from;
	part.to = to;
	part.when = NEVER;
	guide_reads_add(&sums->guide, reads);
	for (i = 0; i < f->site_count; i++) {
		const struct site *s = f->sites[i];
		char at[256];

		if (!is_reason(v, s, &part) && !(f->whole && is_reason(v, s, f)))
			continue;
		line_text(v, lines, s, at, sizeof(at));
		guide_line_add(&sums->guide, at);
	}
	/* No line prevents it: either --closed is missing, or the reason is known only from tables. */
	sums->guide.list[sums->guide.count - 1].armed = !sums->guide.list[sums->guide.count - 1].line_count || o->exported;
}

/*
 * Adds all members of an object to the guide, for a field that is the whole object: as soon as no place applies to all
 * of them, they are armed one by one.
 */
static void guide_add_whole(const struct view *v, struct lines *lines, const struct field *f, size_t reads,
                            struct sums *sums)
{
	const struct object *o = &v->scan.objects.list[f->object];
	size_t k;

	if (!o->members.count)
		guide_add(v, lines, f, f->from, f->to, reads, sums);
	for (k = 0; k < o->members.count && !field_guide_is_full(&sums->guide); k++) {
		const struct member *m = &o->members.list[k];
		struct field part = {
			.object = f->object,
			.from = m->off,
			.to = m->off + m->size,
			.sites = f->sites,
			.site_count = f->site_count,
		};
		size_t all, n = reads_count(&part, &all);

		if (n)
			guide_add(v, lines, f, part.from, part.to, n, sums);
	}
}

/*
 * True if a field with stores would be armed once all its stores were calls of etch_set. In this case, also adds the
 * lines of the stores to *sums.
 */
static bool set_would_arm(const struct view *v, struct lines *lines, const struct field *f, struct sums *sums)
{
	size_t i;

	for (i = 0; i < f->site_count; i++)
		if (is_reason(v, f->sites[i], f) && (f->sites[i]->kind != SITE_STORE || f->sites[i]->in_data))
			return false;
	for (i = 0; i < f->site_count; i++)
		if (is_reason(v, f->sites[i], f))
			line_add(v, lines, f->sites[i], sums);
	return true;
}

/*
 * Returns the text for the column `because`: the places that keep a field from being armed, or another reason for its
 * state.
 */
static const char *because(const struct object *o, const struct field *f, const char *places, size_t count)
{
	if (places && *places)
		return places;
	if (f->when == AT_START || count)
		return "-";
	if (o->exported)
		return OBJECT_EXPORTED;
	return o->unarmed_why ? o->unarmed_why : "-";
}

/* Adds the cell with the name of a field. */
static void field_name_add(const struct object *o, const struct field *f, struct listing *l)
{
	const struct member *m = member_at(&o->members, f->from);

	if (f->to - f->from == o->size)
		listing_add(l, "-");
	else if (m && m->off == f->from)
		listing_add(l, "%s", m->name);
	else if (m)
		listing_add(l, "%s+0x%" PRIx64, m->name, f->from - m->off);
	else
		listing_add(l, "+0x%" PRIx64, f->from);
}

/*
 * Adds a field to the sums of its object. `formed` is the number of its reads that have an immediate form. Returns a
 * text with the places that keep the field from being armed, which the caller frees, or null. Sets *count to the number
 * of these places.
 */
static char *field_sum(const struct view *v, struct lines *lines, const struct field *f, bool all, size_t formed,
                       struct sums *sums, size_t *count)
{
	enum when when = f->when;
	char *why = NULL;

	if (when != AT_START)
		why = reasons(v, lines, f, all, count);
	if (when == NEVER && set_would_arm(v, lines, f, sums))
		when = BY_SET;
	sums->fields[when]++;
	sums->reads[when] += formed;
	sums->guide.reads += formed;
	if (f->when != NEVER && f->when != GUARDED)
		return why;
	if (f->whole)
		guide_add_whole(v, lines, f, formed, sums);
	else if (formed)
		guide_add(v, lines, f, f->from, f->to, formed, sums);
	return why;
}

static void field_show(const struct view *v, struct lines *lines, const struct field *f, bool all, struct listing *l,
                       struct sums *sums)
{
	const struct object *o = &v->scan.objects.list[f->object];
	size_t i, count = 0, reads, formed = reads_count(f, &reads);
	bool loads = reads && !formed; /* all reads of the field stay loads */
	char *why = NULL;

	sums->formless += reads - formed;
	if (!loads)
		why = field_sum(v, lines, f, all, formed, sums, &count);
	for (i = 0; f->whole && o->facts && i < f->site_count; i++)
		sums->stores += f->sites[i]->kind == SITE_STORE;
	sums->vague = f->whole && o->facts && !o->dense ? count : 0;
	listing_add(l, "%s", o->name);
	field_name_add(o, f, l);
	listing_add(l, "%" PRIu64, f->from);
	listing_add(l, "%" PRIu64, f->to - f->from);
	listing_add(l, "%zu", reads);
	listing_add(l, "%s", when_names[loads ? NEVER : f->when]);
	listing_add(l, "%zu", count);
	listing_add(l, "%s", loads ? NO_FORM : because(o, f, why, count));
	free(why);
}

static int span_order(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

/* Finds to which bytes of its object a site applies. */
static enum reach span_reach(const struct object *o, const struct site *s, struct span *x)
{
	if (s->kind == SITE_LOAD)
		return s->off_known && s->off >= 0 ? REACH_BYTES : REACH_ANY;
	return site_kind_is_patched(s->kind) ? REACH_ANY : site_reach(o, s, &x->from, &x->to);
}

static void spans_make(const struct object *o, const struct field *of, struct spans *out)
{
	uint64_t reach = 0;
	size_t i;

	out->list = mem_alloc(of->site_count, sizeof(*out->list));
	out->arrays = mem_alloc(2 * of->site_count, sizeof(*out->arrays));
	out->found = out->arrays + of->site_count;
	out->count = out->array_count = 0;
	for (i = 0; i < of->site_count; i++) {
		const struct site *s = of->sites[i];
		struct span x = {.from = (uint64_t)s->off, .to = (uint64_t)s->off + s->size, .site = s};
		enum reach how = span_reach(o, s, &x);

		if (how == REACH_BYTES)
			out->list[out->count++] = x;
		else if (how == REACH_ARRAYS)
			out->arrays[out->array_count++] = s;
	}
	sort_if_needed(out->list, out->count, sizeof(*out->list), span_order);
	for (i = 0; i < out->count; i++)
		out->list[i].reach = reach = out->list[i].to > reach ? out->list[i].to : reach;
}

static int site_order(const void *a, const void *b)
{
	const struct site *x = *(const struct site *const *)a, *y = *(const struct site *const *)b;

	return x < y ? -1 : x > y;
}

/* Sets the sites of a field: those that apply to bytes of it, and those that apply to all arrays. */
static void spans_find(const struct spans *x, const struct object *o, struct field *f)
{
	const struct member *m = x->array_count ? member_at(&o->members, f->from) : NULL;
	size_t k = SEARCH(x->count, i, x->list[i].from < f->to), n = 0;

	while (k && x->list[k - 1].reach > f->from)
		if (x->list[--k].to > f->from)
			x->found[n++] = x->list[k].site;
	if (m && member_is_indexed(&o->members, m)) {
		memcpy(x->found + n, x->arrays, x->array_count * sizeof(*x->found));
		n += x->array_count;
	}
	sort_if_needed(x->found, n, sizeof(*x->found), site_order);
	f->sites = x->found;
	f->site_count = n;
}

/* True if etch_sync never arms an object, or a part of it, whatever it does with other objects. */
static bool is_left(const struct object *o)
{
	bool left = o->kernel || o->dense;
	size_t i;

	for (i = 0; i < o->range_count && !left; i++)
		left = o->ranges[i].kept;
	return left;
}

/*
 * True if read-only pages cannot guard an object that is stored to later, because they contain another object that
 * etch_sync leaves unarmed.
 */
static bool is_unguarded(const struct scan *s, const struct object *o)
{
	const struct object *list = s->objects.list, *end = list + s->objects.defined, *x;
	uint64_t first = o->addr & ~(uint64_t)(ETCH_PAGE - 1), last = (o->addr + o->size - 1) | (ETCH_PAGE - 1);
	bool left = is_left(o);

	if (!object_is_exposed(o))
		return left;
	for (x = o; x > list && x[-1].section == o->section && x[-1].addr + x[-1].size > first && !left; x--)
		left = is_left(x - 1);
	for (x = o + 1; x < end && x->section == o->section && x->addr <= last && !left; x++)
		left = is_left(x);
	return left;
}

static enum when object_when(const struct scan *s, const struct object *o)
{
	if (o->armed)
		return AT_START;
	if (o->kernel || (o->kept && is_unguarded(s, o)))
		return NEVER;
	return o->kept ? GUARDED : BY_SYNC;
}

static enum when range_when(const struct object *o, const struct object_range *p)
{
	if (p->kept)
		return NEVER;
	if (o->exported)
		return GUARDED;
	return p->facts || !o->in_part ? BY_SYNC : AT_START;
}

static void object_show(const struct view *v, struct lines *lines, const struct field *of, bool all, struct listing *l,
                        struct sums *sums)
{
	const struct object *o = &v->scan.objects.list[of->object];
	struct field f = *of;
	struct spans spans;
	size_t i;

	if (!o->range_count) {
		f.to = o->size;
		f.when = object_when(&v->scan, o);
		f.whole = true;
		field_show(v, lines, &f, all, l, sums);
		return;
	}
	spans_make(o, of, &spans);
	for (i = 0; i < o->range_count; i++) {
		const struct object_range *p = &o->ranges[i];

		f.from = p->from;
		f.to = p->to;
		f.when = range_when(o, p);
		spans_find(&spans, o, &f);
		field_show(v, lines, &f, all, l, sums);
	}
	free(spans.list);
	free(spans.arrays);
}

/*
 * Prints the summary for a maintainer: how many reads of an object can become immediates, and which changes of the
 * source that takes.
 */
static void sums_print(const char *object, struct sums *s, bool all)
{
	size_t i, n = 0;

	if (s->line_count)
		qsort(s->lines, s->line_count, sizeof(*s->lines), string_order);
	for (i = 0; i < s->line_count; i++)
		n += !i || strcmp(s->lines[i], s->lines[i - 1]);
	text_clean(stdout, object);
	if (s->vague && s->stores) {
		printf(
			": not armed by field, because %zu place%s may reach any byte; etch_sync arms the whole object (%zu reads) "
			"and makes its pages read-only, because %zu store%s may follow later\n",
			s->vague, plural(s->vague), s->reads[BY_SYNC] + s->reads[GUARDED], s->stores, plural(s->stores));
		return;
	}
	printf(": %zu field%s (%zu read%s) armed now, %zu more (%zu) by etch_sync", s->fields[AT_START],
	       plural(s->fields[AT_START]), s->reads[AT_START], plural(s->reads[AT_START]),
	       s->fields[BY_SYNC] + s->fields[GUARDED], s->reads[BY_SYNC] + s->reads[GUARDED]);
	if (s->fields[NEVER])
		printf(", %zu (%zu) not: something takes the address", s->fields[NEVER], s->reads[NEVER]);
	if (s->formless)
		printf(", %zu read%s without an immediate form", s->formless, plural(s->formless));
	if (n)
		printf("%s %zu (%zu) after etch_set in place of %zu line%s:", s->fields[NEVER] ? ";" : ",", s->fields[BY_SET],
		       s->reads[BY_SET], n, plural(n));
	for (i = n = 0; i < s->line_count; i++) {
		if (i && !strcmp(s->lines[i], s->lines[i - 1]))
			continue;
		if (n++ < LINES_SHOWN || all)
			printf(" %s", s->lines[i]);
	}
	if (n > LINES_SHOWN && !all)
		printf(" and %zu more (--all)", n - LINES_SHOWN);
	printf("\n");
}

/* The sites of all objects, in order. Those of object k are list[start[k]] to list[start[k + 1] - 1]. */
struct by_object {
	const struct site **list;
	size_t *start;
};

static void sites_group(const struct scan *s, struct by_object *out)
{
	size_t i;

	out->list = mem_alloc(s->site_count, sizeof(*out->list));
	out->start = mem_zero(s->objects.count + 2, sizeof(*out->start));
	for (i = 0; i < s->site_count; i++)
		out->start[s->sites[i].object + 2]++;
	for (i = 2; i <= s->objects.count + 1; i++)
		out->start[i] += out->start[i - 1];
	for (i = 0; i < s->site_count; i++)
		out->list[out->start[s->sites[i].object + 1]++] = &s->sites[i];
}

void show_fields(const struct view *v, bool all, enum format format)
{
	struct lines *lines = lines_open(&v->file);
	struct sums *sums = mem_zero(v->scan.objects.count + 1, sizeof(*sums));
	struct by_object sites;
	struct listing l;
	size_t k, i;

	sites_group(&v->scan, &sites);
	listing_init(&l, field_columns, sizeof(field_columns) / sizeof(field_columns[0]));
	for (k = 0; k < v->scan.objects.defined; k++) {
		struct field f = {.object = (int32_t)k,
		                  .sites = sites.list + sites.start[k],
		                  .site_count = sites.start[k + 1] - sites.start[k]};

		object_show(v, lines, &f, all, &l, &sums[k]);
	}
	lines_close(lines);
	view_list_print(v, "fields", &l, format, "no etched object");
	for (k = 0; k < v->scan.objects.defined; k++) {
		if (format == FORMAT_TEXT) {
			field_guide_print(&sums[k].guide, v->scan.objects.list[k].name, all ? SIZE_MAX : GUIDE_SHOWN);
			sums_print(v->scan.objects.list[k].name, &sums[k], all);
		}
		field_guide_free(&sums[k].guide);
		for (i = 0; i < sums[k].line_count; i++)
			free(sums[k].lines[i]);
		free(sums[k].lines);
	}
	free(sums);
	free(sites.list);
	free(sites.start);
	listing_free(&l);
}
