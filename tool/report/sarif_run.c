/* SPDX-License-Identifier: MIT */
/* The frame of a SARIF log: one run with its tool, rules and invocation (3.14). */
#include "report/sarif_internal.h"
#include "report/uri.h"
#include "support/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ETCH_VERSION
#define ETCH_VERSION "0.0.0"
#endif

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

/* SARIF does not define these properties; the names are those that services read. */
static struct json_object *rule_properties(const struct catalogue_entry *e)
{
	struct json_object *o = json_object_new_object(), *tags = json_object_new_array();

	json_object_array_add(tags, json_object_new_string(catalogue_group(e)));
	json_object_object_add(o, "tags", tags);
	put_string(o, "problem.severity", e->severity == SEVERITY_NOTE ? "recommendation" : severity_name(e->severity));
	put_string(o, "precision", e->severity == SEVERITY_ERROR ? "very-high" : "high");
	return o;
}

/* docs/findings.md has a heading for each ID. */
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

/* 3.49: reportingDescriptor. */
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

/* 3.20; without times, so that equal runs give equal documents. */
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
