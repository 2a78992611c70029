/* SPDX-License-Identifier: MIT */
/* Makes the JSON of a comparison (docs/schemas/diff.json). */
#include "diff/diff_print.h"

#include "report/report_json.h"
#include "report/listing.h"
#include "report/text.h"

#include <stdlib.h>

static void add(struct json_object *o, const char *key, struct json_object *v) { json_object_object_add(o, key, v); }

static struct json_object *image_json(const struct image *im)
{
	struct json_object *o = json_object_new_object();
	const uint8_t *id;
	size_t n = elf_build_id(&im->file, &id), i;
	char text[2 * 64 + 1] = "";

	for (i = 0; i < n && i < 64; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
	add(o, "kind", json_object_new_string(file_kind(&im->file)));
	json_number_add(o, "bytes", im->file.size);
	add(o, "build_id", n ? json_object_new_string(text) : NULL);
	return o;
}

static struct json_object *size_json(const struct size_row *r)
{
	struct json_object *o = json_object_new_object();

	add(o, "name", json_object_new_string(r->name));
	json_number_add(o, "old", r->old);
	json_number_add(o, "new", r->new);
	return o;
}

/* Makes the JSON of a function of one file; null if there is no function. */
static struct json_object *function_json(const struct image *im, uint32_t func)
{
	const struct function *fn = func == NO_FUNC ? NULL : &im->funcs[func];
	struct json_object *o = fn ? json_object_new_object() : NULL;

	if (!fn)
		return NULL;
	add(o, "name", fn->name ? json_name(fn->name) : NULL);
	add(o, "source", fn->file ? json_name(fn->file) : NULL);
	add(o, "section", json_name(im->file.sections[fn->section].name));
	add(o, "address", json_hex(fn->start, 1));
	json_number_add(o, "bytes", fn->end - fn->start);
	json_number_add(o, "instructions", fn->insns);
	add(o, "frame", fn->depth ? json_object_new_uint64(fn->depth) : NULL);
	add(o, "frame_dynamic", json_object_new_boolean(fn->flags & FRAME_DYNAMIC));
	add(o, "frame_realigned", json_object_new_boolean(fn->flags & FRAME_REALIGNED));
	json_number_add(o, "rows", fn->rows);
	return o;
}

static const char *matched_name(const struct diff *d, const struct change *x)
{
	static const char *const names[] = {NULL, "name", "suffix", "code", "content", "calls", "place", "folded"};
	const struct function *a = x->old != NO_FUNC ? &d->old->funcs[x->old] : NULL;
	const struct function *b = x->new != NO_FUNC ? &d->new->funcs[x->new] : NULL;

	if (!a || !b)
		return NULL;
	return names[a->how == MATCHED_FOLDED || b->how == MATCHED_FOLDED ? MATCHED_FOLDED : a->how];
}

static struct json_object *change_json(const struct diff *d, const struct change *x)
{
	struct json_object *o = json_object_new_object(), *what = json_object_new_array(), *calls = json_object_new_array();
	const char *matched = matched_name(d, x);
	size_t i;

	if (x->code)
		json_object_array_add(what, json_object_new_string("code"));
	if (x->frame)
		json_object_array_add(what, json_object_new_string("frame"));
	if (x->rows)
		json_object_array_add(what, json_object_new_string("rows"));
	for (i = 0; i < x->call_count; i++) {
		struct json_object *c = json_object_new_object();

		add(c, "name", json_name(x->calls[i].name));
		add(c, "count", json_object_new_int64(x->calls[i].count));
		json_object_array_add(calls, c);
	}
	add(o, "change", json_object_new_string(change_kind_name(x->kind)));
	add(o, "matched_by", matched ? json_object_new_string(matched) : NULL);
	add(o, "differs", what);
	add(o, "old", function_json(d->old, x->old));
	add(o, "new", function_json(d->new, x->new));
	json_number_add(o, "instructions_gone", x->removed);
	json_number_add(o, "instructions_new", x->inserted);
	add(o, "calls", calls);
	return o;
}

static struct json_object *functions_json(const struct diff *d)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();
	const struct change **sorted = changes_sorted(d);
	size_t i;

	for (i = 0; i < d->change_count; i++)
		json_object_array_add(list, change_json(d, sorted[i]));
	free(sorted);
	json_number_add(o, "same", d->same);
	json_number_add(o, "changed", d->changed);
	json_number_add(o, "added", d->added);
	json_number_add(o, "removed", d->removed);
	json_number_add(o, "renamed", d->renamed);
	json_number_add(o, "frames_deeper", d->grown);
	json_number_add(o, "frames_less_deep", d->shrunk);
	add(o, "list", list);
	return o;
}

/* Makes the JSON of a site. "live" is null for kinds that are never patched (stores, escapes). */
static struct json_object *site_json(const struct image *im, const struct site *s, const char *why)
{
	struct json_object *o = s ? json_object_new_object() : NULL;
	bool patched = s && site_kind_is_patched(s->kind);
	char where[600];

	if (!s)
		return NULL;
	site_place(im, s, where, sizeof(where));
	add(o, "place", json_name(where));
	add(o, "address", json_hex(s->addr, 1));
	add(o, "live", patched ? json_object_new_boolean(!why) : NULL);
	add(o, "why_not", why ? json_object_new_string(why) : NULL);
	return o;
}

static struct json_object *sites_json(const struct diff *d)
{
	struct json_object *list = json_object_new_array();
	size_t i;

	for (i = 0; i < d->site_count; i++) {
		const struct site_change *x = &d->sites[i];
		const struct image *im = x->new ? d->new : d->old;
		const struct site *s = x->new ? x->new : x->old;
		struct json_object *o = json_object_new_object();
		const char *change = "changed";

		if (!x->old)
			change = "gained";
		else if (!x->new)
			change = "lost";
		add(o, "change", json_object_new_string(change));
		add(o, "kind", json_object_new_string(site_kind_name(s->kind)));
		add(o, "object", json_name(im->subject.scan.objects.list[s->object].name));
		add(o, "offset", s->off_known ? json_object_new_int64(s->off) : NULL);
		add(o, "old", site_json(d->old, x->old, x->was));
		add(o, "new", site_json(d->new, x->new, x->is));
		json_object_array_add(list, o);
	}
	return list;
}

static struct json_object *findings_json(const struct diff *d)
{
	struct json_object *list = json_object_new_array();
	size_t i;

	for (i = 0; i < d->finding_count; i++) {
		const struct report_finding *f = d->findings[i].finding;
		struct json_object *o = json_object_new_object();

		add(o, "change", json_object_new_string(d->findings[i].removed ? "gone" : "new"));
		add(o, "id", json_object_new_string(f->entry->id));
		add(o, "severity", json_object_new_string(severity_name(f->entry->severity)));
		add(o, "text", json_name(f->text));
		add(o, "place", place_to_json(&f->place, EXCHANGE_DOCUMENT));
		json_object_array_add(list, o);
	}
	return list;
}

struct json_object *diff_json(const struct diff *d)
{
	struct json_object *o = json_object_new_object(), *sizes = json_object_new_array();
	struct json_object *counts = json_object_new_array();
	size_t i;

	for (i = 0; i < d->size_count; i++)
		json_object_array_add(sizes, size_json(&d->sizes[i]));
	for (i = 0; i < sizeof(d->counts) / sizeof(d->counts[0]); i++)
		json_object_array_add(counts, size_json(&d->counts[i]));
	add(o, "differs", json_object_new_boolean(d->differs));
	add(o, "nameless", json_object_new_boolean(d->old->nameless));
	add(o, "old", image_json(d->old));
	add(o, "new", image_json(d->new));
	add(o, "sizes", sizes);
	add(o, "counts", counts);
	add(o, "functions", functions_json(d));
	add(o, "sites", sites_json(d));
	add(o, "findings", findings_json(d));
	return o;
}
