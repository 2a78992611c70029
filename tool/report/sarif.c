/* SPDX-License-Identifier: MIT */
/* Builds a SARIF log: the results with messages, locations and fingerprints, and the run around them. */
#include "report/sarif.h"
#include "report/listing.h"
#include "report/uri.h"
#include "report/verdict.h"
#include "support/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef ETCH_VERSION
#define ETCH_VERSION "0.0.0"
#endif

#define ROOT_ID "%SRCROOT%" /* the name by which code scanning services know the root of the sources */

static void put_string(struct json_object *o, const char *key, const char *value)
{
	json_object_object_add(o, key, json_name(value));
}

void sarif_init(struct sarif *s, const char *root)
{
	char *here = getcwd(NULL, 0);

	*s = (struct sarif){.here = here ? here : mem_string("/")};
	s->root = path_absolute(s->here, root ? root : ".");
	s->artifacts = json_object_new_array();
	s->results = json_object_new_array();
	s->notices = json_object_new_array();
	s->settings = json_object_new_array();
	s->index_of = json_object_new_object();
}

void sarif_free(struct sarif *s)
{
	free(s->here);
	free(s->root);
	json_object_put(s->artifacts);
	json_object_put(s->results);
	json_object_put(s->notices);
	json_object_put(s->settings);
	json_object_put(s->index_of);
	*s = (struct sarif){0};
}

/* ---- messages (3.11) -------------------------------------------------------------- */

/* Writes text with escapes, so that no part of it is taken for a placeholder (3.11.5) or an embedded link (3.11.6). */
static void write_plain(FILE *out, const char *text)
{
	bool link = strstr(text, "](");

	for (; *text; text++) {
		if (link && (*text == '[' || *text == ']' || *text == '\\'))
			fputc('\\', out);
		fputc(*text, out);
		if (*text == '{' || *text == '}')
			fputc(*text, out);
	}
}

static struct json_object *message_of(const char *text)
{
	struct json_object *o = json_object_new_object();
	size_t size;
	char *plain;
	FILE *out = mem_stream(&plain, &size);

	write_plain(out, text);
	mem_stream_close(out, &plain);
	put_string(o, "text", plain);
	free(plain);
	return o;
}

/* Makes a message: the text of the finding, and a line for each fact with a link to the fact's related location. */
static struct json_object *result_message(const struct report_finding *f)
{
	struct json_object *o = json_object_new_object();
	size_t size, i, id = 0;
	char *text, where[256];
	FILE *out = mem_stream(&text, &size);

	write_plain(out, f->text);
	for (i = 0; i < f->fact_count; i++) {
		const struct report_fact *x = &f->facts[i];

		fputc('\n', out);
		if (x->place) {
			report_place_text(x->place, where, sizeof(where));
			fprintf(out, "[%s](%zu) at ", x->label, ++id);
			write_plain(out, where);
			fputs(": ", out);
		} else {
			fprintf(out, "%s: ", x->label);
		}
		write_plain(out, x->text);
	}
	mem_stream_close(out, &text);
	put_string(o, "text", text);
	free(text);
	return o;
}

/* ---- locations ----------------------------------------------------------------------- */

/*
 * Makes an artifact location (3.4): a URI, relative to the root if the file is below the root. A relative path is taken
 * relative to `base`.
 */
static struct json_object *artifact_location(const struct sarif *s, const char *base, const char *path)
{
	struct json_object *o = json_object_new_object();
	char *absolute = path_absolute(base, path), *uri;
	bool relative = false;

	uri = uri_make(s->root, absolute, &relative);
	json_object_object_add(o, "uri", json_object_new_string(uri));
	if (relative)
		put_string(o, "uriBaseId", ROOT_ID);
	free(uri);
	free(absolute);
	return o;
}

/* Makes the location of the analysed file, which is also an element of run.artifacts (3.14.15). */
static struct json_object *target_location(struct sarif *s, const char *path)
{
	struct json_object *o = artifact_location(s, s->here, path), *uri, *index, *artifact, *roles;

	json_object_object_get_ex(o, "uri", &uri);
	if (!json_object_object_get_ex(s->index_of, json_object_get_string(uri), &index)) {
		index = json_object_new_uint64(json_object_array_length(s->artifacts));
		json_object_object_add(s->index_of, json_object_get_string(uri), index);
		artifact = json_object_new_object();
		roles = json_object_new_array();
		json_object_array_add(roles, json_object_new_string("analysisTarget"));
		json_object_object_add(artifact, "location", artifact_location(s, s->here, path));
		json_object_object_add(artifact, "roles", roles);
		json_object_array_add(s->artifacts, artifact);
	}
	json_object_object_add(o, "index", json_object_get(index));
	return o;
}

/*
 * Makes a physical location (3.29): the source line or, if it is unknown, the analysed file. It also has the address in
 * the file (3.32).
 */
static struct json_object *physical_location(struct sarif *s, const struct report *r, const struct report_place *p)
{
	struct json_object *o = json_object_new_object(), *region, *address;
	char where[256];

	if (p->source) {
		json_object_object_add(o, "artifactLocation", artifact_location(s, s->root, p->source));
		if (p->line) {
			region = json_object_new_object();
			json_object_object_add(region, "startLine", json_object_new_int64(p->line));
			json_object_object_add(o, "region", region);
		}
	} else {
		json_object_object_add(o, "artifactLocation", target_location(s, r->path));
	}
	if (!p->section)
		return o;
	address = json_object_new_object();
	if (p->addr <= INT64_MAX)
		json_object_object_add(address, "absoluteAddress", json_object_new_uint64(p->addr));
	if (p->offset <= INT64_MAX)
		json_object_object_add(address, "offsetFromParent", json_object_new_uint64(p->offset));
	report_place_text(p, where, sizeof(where));
	put_string(address, "kind", "instruction");
	put_string(address, "fullyQualifiedName", where);
	json_object_object_add(o, "address", address);
	return o;
}

static void add_logical(struct json_object *list, const char *name, const char *kind)
{
	struct json_object *o = json_object_new_object();

	put_string(o, "name", name);
	put_string(o, "fullyQualifiedName", name);
	put_string(o, "kind", kind);
	json_object_array_add(list, o);
}

/* Makes a location (3.28) whose logical locations (3.33) are the function and the archive's member. */
static struct json_object *location_of(struct sarif *s, const struct report *r, const struct report_place *p)
{
	struct json_object *o = json_object_new_object(), *logical = json_object_new_array();

	json_object_object_add(o, "physicalLocation", physical_location(s, r, p));
	if (p->function)
		add_logical(logical, p->function, "function");
	if (r->member)
		add_logical(logical, r->member, "module");
	json_object_object_add(o, "logicalLocations", logical);
	return o;
}

static struct json_object *fact_location(struct sarif *s, const struct report *r, const struct report_fact *x)
{
	struct json_object *o = location_of(s, r, x->place);
	char *text = mem_format("%s: %s", x->label, x->text);

	json_object_object_add(o, "message", message_of(text));
	free(text);
	return o;
}

/* ---- results (3.27) ------------------------------------------------------------------ */

/* Makes a code flow (3.36 to 3.38) that leads from the place of a fact about a path to the place of the finding. */
static struct json_object *code_flow(struct sarif *s, const struct report *r, const struct report_finding *f,
                                     const struct report_fact *x)
{
	struct json_object *flow = json_object_new_object(), *threads = json_object_new_array();
	struct json_object *thread = json_object_new_object(), *steps = json_object_new_array(), *step, *last;

	step = json_object_new_object();
	json_object_object_add(step, "location", fact_location(s, r, x));
	json_object_array_add(steps, step);
	last = location_of(s, r, &f->place);
	json_object_object_add(last, "message", message_of(f->text));
	step = json_object_new_object();
	json_object_object_add(step, "location", last);
	json_object_array_add(steps, step);
	json_object_object_add(thread, "locations", steps);
	json_object_array_add(threads, thread);
	json_object_object_add(flow, "threadFlows", threads);
	return flow;
}

/*
 * Adds related locations and code flows: for the facts, for the further places, and for the other files with the
 * finding.
 */
static void add_facts(struct sarif *s, struct json_object *result, const struct report *r,
                      const struct report_finding *f)
{
	struct json_object *related = json_object_new_array(), *flows = json_object_new_array(), *o;
	size_t i, id = 0;

	for (i = 0; i < f->fact_count; i++) {
		if (!f->facts[i].place)
			continue;
		o = fact_location(s, r, &f->facts[i]);
		json_object_object_add(o, "id", json_object_new_uint64(++id));
		json_object_array_add(related, o);
		if (strstr(f->facts[i].label, "path"))
			json_object_array_add(flows, code_flow(s, r, f, &f->facts[i]));
	}
	for (i = 0; i < f->also_count; i++) {
		o = location_of(s, r, &f->also[i]);
		json_object_object_add(o, "message", message_of("the same"));
		json_object_object_add(o, "id", json_object_new_uint64(++id));
		json_object_array_add(related, o);
	}
	for (i = 1; f->seen && i < f->seen->count; i++) {
		o = location_of(s, f->seen->list[i].report, &f->seen->list[i].finding->place);
		json_object_object_add(o, "message", message_of("the same in another file"));
		json_object_object_add(o, "id", json_object_new_uint64(++id));
		json_object_array_add(related, o);
	}
	if (json_object_array_length(related))
		json_object_object_add(result, "relatedLocations", json_object_get(related));
	if (json_object_array_length(flows))
		json_object_object_add(result, "codeFlows", json_object_get(flows));
	json_object_put(related);
	json_object_put(flows);
}

/*
 * Adds the fingerprint. Services merge results with equal fingerprints, so it contains the number `nth` of the finding
 * among those of its file that have the same one.
 */
static void add_fingerprint(struct json_object *result, const struct report_finding *f, size_t nth)
{
	struct json_object *o = json_object_new_object();
	char text[48];

	snprintf(text, sizeof(text), "%016" PRIx64 ":%zu", f->fingerprint, nth);
	put_string(o, "etchFinding/v1", text);
	json_object_object_add(result, "partialFingerprints", o);
}

static void add_properties(struct json_object *result, const struct report_finding *f)
{
	struct json_object *o = json_object_new_object();

	if (f->compiler)
		put_string(o, "origin", "compiler");
	if (f->places > 1)
		json_object_object_add(o, "places", json_object_new_uint64(f->places));
	json_object_object_add(result, "properties", o);
}

static struct json_object *result_of(struct sarif *s, const struct report *r, const struct report_finding *f,
                                     size_t nth, const char *state)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();

	put_string(o, "ruleId", f->entry->id);
	json_object_object_add(o, "ruleIndex", json_object_new_int64(f->entry - catalogue));
	put_string(o, "level", severity_name(f->severity));
	json_object_object_add(o, "message", result_message(f));
	json_object_array_add(list, location_of(s, r, &f->place));
	json_object_object_add(o, "locations", list);
	json_object_object_add(o, "analysisTarget", target_location(s, r->path));
	add_facts(s, o, r, f);
	add_fingerprint(o, f, nth);
	if (f->compiler || f->places > 1)
		add_properties(o, f);
	if (s->suppressions) {
		list = json_object_new_array();
		if (f->suppressed) {
			struct json_object *why = json_object_new_object();

			put_string(why, "kind", "external");
			put_string(why, "justification", f->suppressed);
			json_object_array_add(list, why);
		}
		json_object_object_add(o, "suppressions", list);
	}
	if (s->baseline)
		put_string(o, "baselineState", state);
	return o;
}

static void add_notice(struct json_object *list, const char *level, const char *text, struct json_object *where)
{
	struct json_object *o = json_object_new_object(), *places;

	put_string(o, "level", level);
	json_object_object_add(o, "message", message_of(text));
	if (where) {
		places = json_object_new_array();
		json_object_array_add(places, where);
		json_object_object_add(o, "locations", places);
	}
	json_object_array_add(list, o);
}

void sarif_add(struct sarif *s, const struct report *r, enum severity level)
{
	static const struct report_place nowhere;
	struct json_object *seen = json_object_new_object(), *count;
	size_t i;

	json_object_put(target_location(s, r->path));
	if (r->error)
		add_notice(s->notices, "error", r->error, location_of(s, r, &nowhere));
	for (i = 0; i < r->count; i++) {
		const struct report_finding *f = &r->list[i];
		size_t nth = 1;
		char key[24];

		snprintf(key, sizeof(key), "%016" PRIx64, f->fingerprint);
		if (json_object_object_get_ex(seen, key, &count))
			nth = json_object_get_uint64(count) + 1;
		json_object_object_add(seen, key, json_object_new_uint64(nth));
		if (finding_reaches(f, level) && !f->repeated)
			json_object_array_add(s->results, result_of(s, r, f, nth, f->known ? "unchanged" : "new"));
	}
	json_object_put(seen);
}

void sarif_add_gone(struct sarif *s, const struct report *r, const struct report_finding *f)
{
	json_object_array_add(s->results, result_of(s, r, f, 1, "absent"));
}

void sarif_note(struct sarif *s, const char *text) { add_notice(s->settings, "note", text, NULL); }

/* ---- the run: its tool, rules and invocation (3.14) -------------------------------------- */

static struct json_object *text_object(const char *text)
{
	struct json_object *o = json_object_new_object();

	put_string(o, "text", text);
	return o;
}

static struct json_object *rule_help(const struct catalogue_entry *e)
{
	struct json_object *o = json_object_new_object();
	char *plain = mem_format("%s %s", e->why, e->fix);
	char *marked = mem_format("**%s.** %s\n\n**What to do:** %s\n", e->title, e->why, e->fix);

	put_string(o, "text", plain);
	put_string(o, "markdown", marked);
	free(plain);
	free(marked);
	return o;
}

/* SARIF does not define these properties. Their names are those that services read. */
static struct json_object *rule_properties(const struct catalogue_entry *e)
{
	struct json_object *o = json_object_new_object(), *tags = json_object_new_array();

	json_object_array_add(tags, json_object_new_string(catalogue_group(e)));
	json_object_object_add(o, "tags", tags);
	put_string(o, "problem.severity", e->severity == SEVERITY_NOTE ? "recommendation" : severity_name(e->severity));
	put_string(o, "precision", e->severity == SEVERITY_ERROR ? "very-high" : "high");
	return o;
}

/* Adds a link to the heading for the ID in docs/findings.md. */
static void add_help_uri(struct json_object *rule, const char *docs, const char *id)
{
	char *uri, *p;

	if (!docs)
		return;
	uri = mem_format("%s#%s", docs, id);
	for (p = uri + strlen(docs); *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p - 'A' + 'a');
	put_string(rule, "helpUri", uri);
	free(uri);
}

/* Makes a reportingDescriptor (3.49). */
static struct json_object *rule_of(const struct catalogue_entry *e, const char *docs)
{
	struct json_object *o = json_object_new_object(), *configuration = json_object_new_object();

	put_string(o, "id", e->id);
	put_string(o, "name", e->name);
	json_object_object_add(o, "shortDescription", text_object(e->title));
	json_object_object_add(o, "fullDescription", text_object(e->why));
	json_object_object_add(o, "help", rule_help(e));
	add_help_uri(o, docs, e->id);
	put_string(configuration, "level", severity_name(e->severity));
	json_object_object_add(o, "defaultConfiguration", configuration);
	json_object_object_add(o, "properties", rule_properties(e));
	return o;
}

static struct json_object *driver_of(const struct sarif *s)
{
	struct json_object *o = json_object_new_object(), *rules = json_object_new_array();
	size_t i;

	put_string(o, "name", "etch");
	put_string(o, "version", ETCH_VERSION);
	put_string(o, "semanticVersion", ETCH_VERSION);
	for (i = 0; i < catalogue_count; i++)
		json_object_array_add(rules, rule_of(&catalogue[i], s->docs));
	json_object_object_add(o, "rules", rules);
	return o;
}

static struct json_object *directory_location(const char *path)
{
	struct json_object *o = json_object_new_object();
	char *uri = uri_directory(path);

	json_object_object_add(o, "uri", json_object_new_string(uri));
	free(uri);
	return o;
}

/* Makes an invocation (3.20). It has no times, so that equal runs give equal documents. */
static struct json_object *invocation_of(struct sarif *s, int exit_code)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "executionSuccessful", json_object_new_boolean(!json_object_array_length(s->notices)));
	json_object_object_add(o, "exitCode", json_object_new_int(exit_code));
	json_object_object_add(o, "workingDirectory", directory_location(s->here));
	json_object_object_add(o, "toolExecutionNotifications", json_object_get(s->notices));
	json_object_object_add(o, "toolConfigurationNotifications", json_object_get(s->settings));
	return o;
}

struct json_object *sarif_finish(struct sarif *s, int exit_code)
{
	struct json_object *root = json_object_new_object(), *runs = json_object_new_array();
	struct json_object *run = json_object_new_object(), *tool = json_object_new_object();
	struct json_object *bases = json_object_new_object(), *invocations = json_object_new_array();

	put_string(root, "$schema",
	           "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json");
	put_string(root, "version", "2.1.0");
	json_object_object_add(tool, "driver", driver_of(s));
	json_object_object_add(run, "tool", tool);
	json_object_array_add(invocations, invocation_of(s, exit_code));
	json_object_object_add(run, "invocations", invocations);
	json_object_object_add(bases, ROOT_ID, directory_location(s->root));
	json_object_object_add(run, "originalUriBaseIds", bases);
	put_string(run, "columnKind", "utf16CodeUnits");
	json_object_object_add(run, "artifacts", json_object_get(s->artifacts));
	json_object_object_add(run, "results", json_object_get(s->results));
	json_object_array_add(runs, run);
	json_object_object_add(root, "runs", runs);
	return root;
}
