/* SPDX-License-Identifier: MIT */
/* JSON encoding and decoding of reports. */
#include "report/report_json.h"
#include "report/listing.h"
#include "report/across_files.h"
#include "support/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- to JSON --------------------------------------------------------------------- */

struct json_object *json_hex(uint64_t value, int digits)
{
	char text[24];

	snprintf(text, sizeof(text), "%0*" PRIx64, digits, value);
	return json_object_new_string(text);
}

static void put_text(struct json_object *o, const char *key, const char *text, enum exchange how)
{
	if (text)
		json_object_object_add(o, key, how == EXCHANGE_EXACT ? json_object_new_string(text) : json_name(text));
}

static void put_place(struct json_object *o, const struct report_place *p, enum exchange how)
{
	put_text(o, "section", p->section, how);
	if (p->section) {
		json_object_object_add(o, "address", json_hex(p->addr, 1));
		put_text(o, "function", p->function, how);
		json_object_object_add(o, "offset", json_object_new_uint64(p->offset));
	}
	put_text(o, "source", p->source, how);
	if (p->source && p->line)
		json_object_object_add(o, "line", json_object_new_int64(p->line));
}

struct json_object *place_to_json(const struct report_place *p, enum exchange how)
{
	struct json_object *o = json_object_new_object();

	put_place(o, p, how);
	return o;
}

static struct json_object *facts_to_json(const struct report_finding *f, enum exchange how)
{
	struct json_object *list = json_object_new_array();
	size_t i;

	for (i = 0; i < f->fact_count; i++) {
		const struct report_fact *x = &f->facts[i];
		struct json_object *o = json_object_new_object();

		put_text(o, "label", x->label, how);
		put_text(o, "text", x->text, how);
		if (x->place)
			json_object_object_add(o, "place", place_to_json(x->place, how));
		json_object_array_add(list, o);
	}
	return list;
}

static struct json_object *also_to_json(const struct report_finding *f, enum exchange how)
{
	struct json_object *list = json_object_new_array();
	size_t i;

	for (i = 0; i < f->also_count; i++)
		json_object_array_add(list, place_to_json(&f->also[i], how));
	return list;
}

static struct json_object *file_to_json(const struct report *r, enum exchange how)
{
	struct json_object *o = json_object_new_object();

	put_text(o, "path", r->path, how);
	put_text(o, "member", r->member, how);
	return o;
}

/*
 * Writes in which other files a finding occurs. In its first file it has the list of the others; in each of the others
 * it refers to the first.
 */
static void put_seen(struct json_object *o, const struct report_finding *f, enum exchange how)
{
	struct json_object *list;
	size_t i;

	if (f->repeated) {
		json_object_object_add(o, "same_as", file_to_json(f->seen->list[0].report, how));
		return;
	}
	list = json_object_new_array();
	for (i = 1; i < f->seen->count; i++)
		json_object_array_add(list, file_to_json(f->seen->list[i].report, how));
	json_object_object_add(o, "also_in", list);
}

static struct json_object *finding_to_json(const struct report_finding *f, enum exchange how)
{
	struct json_object *o = json_object_new_object();

	put_text(o, "id", f->entry->id, how);
	if (how == EXCHANGE_DOCUMENT) {
		put_text(o, "name", f->entry->name, how);
		put_text(o, "severity", severity_name(f->severity), how);
	}
	put_text(o, "text", f->text, how);
	json_object_object_add(o, "place", place_to_json(&f->place, how));
	json_object_object_add(o, "facts", facts_to_json(f, how));
	if (f->compiler)
		json_object_object_add(o, "origin", json_object_new_string("compiler"));
	if (f->places > 1) {
		json_object_object_add(o, "places", json_object_new_uint64(f->places));
		json_object_object_add(o, "also", also_to_json(f, how));
	}
	if (how == EXCHANGE_EXACT)
		json_object_object_add(o, "key", json_hex(f->key, 16));
	else if (f->seen)
		put_seen(o, f, how);
	json_object_object_add(o, "print", json_hex(f->fingerprint, 16));
	put_text(o, "suppressed", f->suppressed, how);
	if (f->known)
		json_object_object_add(o, "baseline", json_object_new_boolean(true));
	return o;
}

static struct json_object *dropped_to_json(const struct report *r)
{
	struct json_object *list = json_object_new_array();
	size_t i;

	for (i = 0; i < SEVERITIES; i++)
		json_object_array_add(list, json_object_new_uint64(r->dropped[i]));
	return list;
}

struct json_object *report_to_json(const struct report *r, enum exchange how)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();
	size_t i;

	put_text(o, "path", r->path, how);
	put_text(o, "member", r->member, how);
	put_text(o, "error", r->error, how);
	if (how == EXCHANGE_EXACT) {
		json_object_object_add(o, "linked", json_object_new_boolean(r->linked));
		json_object_object_add(o, "dropped", dropped_to_json(r));
	}
	json_object_object_add(o, "functions", json_object_new_uint64(r->functions));
	json_object_object_add(o, "instructions", json_object_new_uint64(r->insns));
	for (i = 0; i < r->count; i++)
		json_object_array_add(list, finding_to_json(&r->list[i], how));
	json_object_object_add(o, "findings", list);
	return o;
}

/* ---- from JSON --------------------------------------------------------------------- */

/*
 * Returns a member of an object. Returns null if the member is missing or has the wrong type; in the latter case sets
 * *wrong to its key.
 */
static struct json_object *member(struct json_object *o, const char *key, enum json_type type, const char **wrong)
{
	struct json_object *v;

	if (!json_object_object_get_ex(o, key, &v) || !v)
		return NULL;
	if (json_object_is_type(v, type))
		return v;
	*wrong = key;
	return NULL;
}

static char *text_from(struct json_object *o, const char *key, const char **wrong)
{
	struct json_object *v = member(o, key, json_type_string, wrong);

	return v ? mem_string(json_object_get_string(v)) : NULL;
}

static uint64_t number_from(struct json_object *o, const char *key, const char **wrong)
{
	struct json_object *v = member(o, key, json_type_int, wrong);

	return v ? json_object_get_uint64(v) : 0;
}

static uint64_t hex_from(struct json_object *o, const char *key, const char **wrong)
{
	struct json_object *v = member(o, key, json_type_string, wrong);
	const char *text = v ? json_object_get_string(v) : "0";

	if (!*text || strlen(text) > 16 || text[strspn(text, "0123456789abcdef")])
		*wrong = key;
	return strtoull(text, NULL, 16);
}

static void place_from(struct report_place *p, struct json_object *o, const char **wrong)
{
	if (!o || !json_object_is_type(o, json_type_object))
		return;
	p->section = text_from(o, "section", wrong);
	p->addr = hex_from(o, "address", wrong);
	p->function = text_from(o, "function", wrong);
	p->offset = number_from(o, "offset", wrong);
	p->source = text_from(o, "source", wrong);
	p->line = (unsigned)number_from(o, "line", wrong);
}

static void facts_from(struct report_finding *f, struct json_object *list, const char **wrong)
{
	size_t n = list ? json_object_array_length(list) : 0, i;

	f->facts = mem_zero(n, sizeof(*f->facts));
	for (i = 0; i < n; i++) {
		struct json_object *o = json_object_array_get_idx(list, i), *place;
		struct report_fact *x = &f->facts[f->fact_count++];

		x->label = text_from(o, "label", wrong);
		x->text = text_from(o, "text", wrong);
		place = member(o, "place", json_type_object, wrong);
		x->place = place ? mem_zero(1, sizeof(*x->place)) : NULL;
		if (place)
			place_from(x->place, place, wrong);
		if (!x->label || !x->text)
			*wrong = "facts";
	}
}

static void also_from(struct report_finding *f, struct json_object *list, const char **wrong)
{
	size_t n = list ? json_object_array_length(list) : 0;

	f->also = n ? mem_zero(n, sizeof(*f->also)) : NULL;
	for (; f->also_count < n; f->also_count++)
		place_from(&f->also[f->also_count], json_object_array_get_idx(list, f->also_count), wrong);
}

static void finding_from(struct report_finding *f, struct json_object *o, const char **wrong)
{
	struct json_object *known = member(o, "baseline", json_type_boolean, wrong);
	struct json_object *origin = member(o, "origin", json_type_string, wrong);

	f->severity = f->entry->severity;
	f->compiler = origin && !strcmp(json_object_get_string(origin), "compiler");
	f->places = number_from(o, "places", wrong);
	f->places += !f->places;
	f->key = hex_from(o, "key", wrong);
	also_from(f, member(o, "also", json_type_array, wrong), wrong);
	f->text = text_from(o, "text", wrong);
	place_from(&f->place, member(o, "place", json_type_object, wrong), wrong);
	facts_from(f, member(o, "facts", json_type_array, wrong), wrong);
	f->fingerprint = hex_from(o, "print", wrong);
	f->suppressed = text_from(o, "suppressed", wrong);
	f->known = known && json_object_get_boolean(known);
	if (!f->text)
		*wrong = "text";
}

int report_from_json(struct report *r, struct json_object *o, struct error *e)
{
	const char *wrong = NULL;
	struct json_object *list, *linked, *dropped;
	size_t n, i;

	memset(r, 0, sizeof(*r));
	if (!json_object_is_type(o, json_type_object))
		return error_set(e, "a report is not an object");
	r->path = text_from(o, "path", &wrong);
	r->member = text_from(o, "member", &wrong);
	r->error = text_from(o, "error", &wrong);
	linked = member(o, "linked", json_type_boolean, &wrong);
	r->linked = linked && json_object_get_boolean(linked);
	dropped = member(o, "dropped", json_type_array, &wrong);
	for (i = 0; dropped && i < SEVERITIES; i++)
		r->dropped[i] = json_object_get_uint64(json_object_array_get_idx(dropped, i));
	r->functions = number_from(o, "functions", &wrong);
	r->insns = number_from(o, "instructions", &wrong);
	list = member(o, "findings", json_type_array, &wrong);
	n = list ? json_object_array_length(list) : 0;
	r->list = mem_zero(n, sizeof(*r->list));
	if (!r->path || !list)
		return error_set(e, "a report without %s", r->path ? "findings" : "path");
	for (i = 0; i < n && !wrong; i++) {
		struct json_object *x = json_object_array_get_idx(list, i);
		const struct catalogue_entry *entry;
		struct json_object *id;

		id = json_object_is_type(x, json_type_object) ? member(x, "id", json_type_string, &wrong) : NULL;
		if (!id)
			return error_set(e, "a finding without id");
		entry = catalogue_find(json_object_get_string(id));
		if (!entry)
			continue;
		r->list[r->count].entry = entry;
		finding_from(&r->list[r->count++], x, &wrong);
	}
	return wrong ? error_set(e, "a report with a wrong member '%s'", wrong) : 0;
}
