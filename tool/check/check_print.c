/* SPDX-License-Identifier: MIT */
/* Prints reports of `etch check` as text, JSON or SARIF (see check_print.h). */
#include "check/check_print.h"
#include "output/outfile.h"
#include "report/report_json.h"
#include "report/listing.h"
#include "support/bounds.h"
#include "support/memory.h"
#include "support/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JSON_VERSION 1 /* version of docs/schemas/check.json; incompatible changes increase it */

#define PRETTY (JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE)

void check_print_begin(struct check_printer *s, const char *root, const char *docs, bool baseline, bool suppressions)
{
	s->out = s->to_file ? mem_stream(&s->bytes, &s->size) : stdout;
	s->files = json_object_new_array();
	s->gone = json_object_new_array();
	text_init(&s->text, s->out, !s->to_file && terminal_has_colours(), s->level);
	sarif_init(&s->sarif, root);
	s->sarif.docs = docs;
	s->sarif.baseline = baseline;
	s->sarif.suppressions = suppressions;
}

void check_print_free(struct check_printer *s)
{
	if (s->to_file && s->out)
		fclose(s->out);
	free(s->bytes);
	text_free(&s->text);
	sarif_free(&s->sarif);
	json_object_put(s->files);
	json_object_put(s->gone);
}

/* ---- a file ------------------------------------------------------------------------ */

/*
 * Adds a report to the JSON document, without its findings below the level. `shown` is a shallow copy of the report
 * with only the other findings.
 */
static void add_json(struct check_printer *s, const struct report *r)
{
	struct report shown = *r;
	size_t i;

	shown.list = mem_alloc(r->count, sizeof(*shown.list));
	for (shown.count = i = 0; i < r->count; i++)
		if (finding_reaches(&r->list[i], s->level))
			shown.list[shown.count++] = r->list[i];
	json_object_array_add(s->files, report_to_json(&shown, EXCHANGE_DOCUMENT));
	free(shown.list);
}

static void add_gone(struct check_printer *s, const struct report *r, const struct report_finding *f)
{
	struct report one = {.path = r->path, .member = r->member, .list = (struct report_finding *)f, .count = 1};

	if (s->format == CHECK_SARIF)
		sarif_add_gone(&s->sarif, r, f);
	else if (s->format == CHECK_JSON)
		json_object_array_add(s->gone, report_to_json(&one, EXCHANGE_DOCUMENT));
}

void check_print_file(struct check_printer *s, const struct report *r, struct totals *n)
{
	const struct baseline_file *old = r->old;
	size_t i;

	if (s->format == CHECK_TEXT)
		text_report(&s->text, r);
	else if (s->format == CHECK_JSON)
		add_json(s, r);
	else
		sarif_add(&s->sarif, r, s->level);
	for (i = 0; old && !r->error && i < old->report.count; i++)
		if (!old->matched[i] && finding_reaches(&old->report.list[i], s->level)) {
			n->gone++;
			add_gone(s, r, &old->report.list[i]);
		}
}

/* ---- the end ------------------------------------------------------------------------- */

static void put_count(struct json_object *o, const char *key, size_t n)
{
	json_object_object_add(o, key, json_object_new_uint64(n));
}

static struct json_object *severities_json(const size_t *n)
{
	struct json_object *o = json_object_new_object();

	put_count(o, "errors", n[SEVERITY_ERROR]);
	put_count(o, "warnings", n[SEVERITY_WARNING]);
	put_count(o, "notes", n[SEVERITY_NOTE]);
	return o;
}

static struct json_object *totals_json(const struct totals *n)
{
	struct json_object *o = json_object_new_object();

	put_count(o, "files", n->files);
	put_count(o, "unusable", n->unusable);
	put_count(o, "skipped", n->skipped);
	json_object_object_add(o, "found", severities_json(n->found));
	json_object_object_add(o, "not_shown", severities_json(n->hidden));
	put_count(o, "suppressed", n->suppressed);
	put_count(o, "baseline", n->known);
	put_count(o, "gone", n->gone);
	put_count(o, "unused_suppressions", n->unused);
	return o;
}

static struct json_object *unused_json(const struct check_printer *s, const struct suppressions *rules)
{
	struct json_object *list = json_object_new_array();
	size_t i;

	for (i = 0; i < rules->count; i++) {
		struct json_object *o;

		if (!suppression_unused(&rules->list[i], s->level))
			continue;
		o = json_object_new_object();
		json_object_object_add(o, "rule", json_name(rules->list[i].rule));
		json_object_object_add(o, "origin", json_name(rules->list[i].origin));
		json_object_object_add(o, "reason", json_name(rules->list[i].reason));
		json_object_array_add(list, o);
	}
	return list;
}

static void print_json(struct check_printer *s, const struct suppressions *rules, const struct totals *n, int exit_code)
{
	struct json_object *root = json_object_new_object(), *tool = json_object_new_object();

	json_object_object_add(root, "format", json_object_new_string("etch-check"));
	json_object_object_add(root, "version", json_object_new_int(JSON_VERSION));
	json_object_object_add(tool, "name", json_object_new_string("etch"));
	json_object_object_add(tool, "version", json_object_new_string(ETCH_VERSION));
	json_object_object_add(root, "tool", tool);
	json_object_object_add(root, "level", json_object_new_string(severity_name(s->level)));
	json_object_object_add(root, "files", json_object_get(s->files));
	json_object_object_add(root, "gone", json_object_get(s->gone));
	json_object_object_add(root, "unused_suppressions", unused_json(s, rules));
	json_object_object_add(root, "summary", totals_json(n));
	json_object_object_add(root, "exit", json_object_new_int(exit_code));
	json_put(s->out, root, PRETTY);
	putc('\n', s->out);
	json_object_put(root);
}

static void print_sarif(struct check_printer *s, const struct suppressions *rules, int exit_code)
{
	struct json_object *root;
	size_t i;
	char *text;

	for (i = 0; i < rules->count; i++) {
		const struct suppression *x = &rules->list[i];

		if (!suppression_unused(x, s->level))
			continue;
		text = mem_format("%s: suppresses nothing: %s", x->origin, x->rule);
		sarif_note(&s->sarif, text);
		free(text);
	}
	root = sarif_finish(&s->sarif, exit_code);
	json_put(s->out, root, PRETTY);
	putc('\n', s->out);
	json_object_put(root);
}

static void print_text(struct check_printer *s, const struct suppressions *rules, const struct totals *n)
{
	size_t i;

	if (s->quiet)
		return;
	for (i = 0; i < rules->count; i++) {
		if (!suppression_unused(&rules->list[i], s->level))
			continue;
		text_clean(s->out, rules->list[i].origin);
		fputs(": suppresses nothing: ", s->out);
		text_clean(s->out, rules->list[i].rule);
		fputc('\n', s->out);
	}
	text_totals(&s->text, n);
}

void check_print_end(struct check_printer *s, const struct suppressions *rules, const struct totals *n, int exit_code)
{
	if (s->format == CHECK_JSON)
		print_json(s, rules, n, exit_code);
	else if (s->format == CHECK_SARIF)
		print_sarif(s, rules, exit_code);
	else
		print_text(s, rules, n);
	fflush(s->out);
}

/* ---- a new baseline: the same document as --format json, in addition to the usual output ---- */

void record_begin(struct baseline_record *b, const char *path)
{
	b->path = path;
	b->document = (struct check_printer){.format = CHECK_JSON, .level = SEVERITY_NOTE, .quiet = true, .to_file = true};
	check_print_begin(&b->document, NULL, NULL, false, false);
}

void record_add(struct baseline_record *b, struct report *r)
{
	struct totals none = {0};
	size_t i;

	if (!b->path)
		return;
	check_print_file(&b->document, r, &none);
	for (i = 0; i < r->count; i++)
		r->list[i].known = true;
}

static int record_write(struct baseline_record *b, const struct suppressions *rules, const struct totals *n,
                        struct error *e)
{
	const struct check_printer *d = &b->document;

	if (n->unusable)
		return error_set(e, "%.300s was not written, because a file could not be used", b->path);
	check_print_end(&b->document, rules, n, 0);
	if (ferror(d->out))
		bounds_exhausted();
	return outfile_write(b->path, d->bytes, d->size, NULL, e) ? -1 : 0;
}

bool record_end(struct baseline_record *b, const struct suppressions *rules, const struct totals *n, bool quiet)
{
	struct error e;
	int err = b->path ? record_write(b, rules, n, &e) : 0;

	if (err)
		text_error(NULL, "%s", e.text);
	else if (b->path && !quiet)
		text_error(b->path, "written: from now on only findings that are not in it count");
	return !err;
}

void record_free(struct baseline_record *b)
{
	if (b->path)
		check_print_free(&b->document);
}
