/* SPDX-License-Identifier: MIT */
/* Prints `etch inspect summary` as TSV and JSON (docs/schemas/inspect-summary.json). */
#include "inspect/view_summary.h"
#include "report/text.h"

#include <inttypes.h>
#include <stdio.h>

static void put_text(struct json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, text ? json_object_new_string(text) : NULL);
}

static struct json_object *hardening_json(const struct summary *s)
{
	const struct elf_hardening *h = &s->hardening;
	struct json_object *o = json_object_new_object();
	bool linked = !elf_is_object(&s->view->file);

	put_text(o, "relro", linked ? elf_relro_name(h->relro) : NULL);
	json_object_object_add(o, "pie", linked ? json_object_new_boolean(h->pie) : NULL);
	put_text(o, "stack", elf_stack_name(h->stack));
	json_bool_add(o, "ibt", h->ibt);
	json_bool_add(o, "shstk", h->shstk);
	return o;
}

static struct json_object *code_json(const struct summary *s)
{
	struct json_object *o = json_object_new_object(), *from = json_object_new_object();
	const struct coverage *c = &s->code;
	unsigned i;

	json_number_add(o, "bytes", c->text);
	json_number_add(o, "sections", s->code_sections);
	json_number_add(o, "functions", s->view->frames.functions);
	json_number_add(o, "instructions", s->view->frames.insns);
	json_number_add(o, "rows", s->view->frames.rows.count);
	for (i = 0; i < 4; i++)
		json_number_add(from, row_source_text(i), c->source[i]);
	json_number_add(from, "undefined", c->text - c->padding - c->covered);
	json_object_object_add(o, "coverage", from);
	json_number_add(o, "undefined_in_functions", s->view->frames.undefined);
	json_number_add(o, "undefined_elsewhere", s->view->frames.elsewhere);
	json_number_add(o, "padding", c->padding);
	return o;
}

static struct json_object *unwind_json(const struct summary *s)
{
	const struct unwind_view *u = s->unwind;
	const struct coverage *c = &s->table;
	struct json_object *o, *from;
	unsigned i;

	if (!u->table)
		return NULL;
	o = json_object_new_object();
	put_text(o, "encoding", u->table);
	json_number_add(o, "rows", u->row_count);
	json_number_add(o, "bytes", u->bytes);
	json_number_add(o, "text", c->text);
	json_number_add(o, "padding", c->padding);
	json_number_add(o, "covered", c->covered);
	json_number_add(o, "map", u->header.map_shift ? 1u << u->header.map_shift : 0);
	json_number_add(o, "undefined_rows", c->undefined_rows);
	from = u->sources ? json_object_new_object() : NULL;
	for (i = 0; i < 4 && from; i++)
		json_number_add(from, row_source_text(i), c->source_rows[i]);
	json_object_object_add(o, "sources", from);
	return o;
}

static struct json_object *findings_json(const struct summary *s)
{
	struct json_object *o = json_object_new_object(), *ids = json_object_new_array();
	unsigned i;

	for (i = 0; i < 3; i++)
		json_number_add(o, severity_name((enum severity)i), s->severities[i]);
	for (i = 0; i < s->found_count; i++) {
		const struct catalogue_entry *x = catalogue_find(s->found[i].what);
		struct json_object *one = json_object_new_object();

		put_text(one, "id", x->id);
		put_text(one, "severity", severity_name(x->severity));
		put_text(one, "title", x->title);
		json_number_add(one, "count", s->found[i].count);
		json_object_array_add(ids, one);
	}
	json_object_object_add(o, "ids", ids);
	return o;
}

static struct json_object *exceptions_json(const struct summary *s)
{
	struct json_object *o = json_object_new_object();
	unsigned i;

	for (i = 0; i <= ETCH_EX_TYPE_LAST; i++)
		json_number_add(o, ex_type_name(i), s->exceptions[i]);
	json_number_add(o, "malformed", s->exceptions[ETCH_EX_TYPE_LAST + 1]);
	return o;
}

static struct json_object *kept_json(const struct tallies *t)
{
	struct json_object *list = json_object_new_array();
	size_t i;

	for (i = 0; i < t->kept_count; i++) {
		struct json_object *k = json_object_new_object();

		put_text(k, "why", t->kept[i].what);
		json_number_add(k, "count", t->kept[i].count);
		json_object_array_add(list, k);
	}
	return list;
}

static void sites_json(const struct summary *s, struct json_object *o)
{
	struct json_object *states = json_object_new_object(), *in_place = json_object_new_object();
	size_t i;

	json_number_add(o, "loads", s->loads.all);
	json_number_add(o, "sites", s->loads.sites);
	json_number_add(o, "live", s->loads.live);
	json_number_add(o, "live_by_swap", s->loads.swap);
	json_number_add(o, "immediates", s->immediates);
	json_number_add(o, "unfit", s->unfit);
	json_number_add(o, "calls", s->calls.all);
	json_number_add(o, "call_sites", s->calls.sites);
	json_number_add(o, "live_calls", s->calls.live);
	json_number_add(o, "live_calls_by_swap", s->calls.swap);
	for (i = 0; i < s->state_count; i++)
		json_number_add(states, s->states[i].what, s->states[i].count);
	json_object_object_add(o, "call_states", states);
	json_number_add(in_place, "all", s->in_place);
	json_number_add(in_place, "now", s->in_place_now);
	json_object_object_add(o, "calls_in_place", in_place);
	json_number_add(o, "stores", s->stores);
	json_number_add(o, "escapes", s->escapes);
}

struct json_object *summary_json(const struct summary *s)
{
	const struct view *v = s->view;
	struct json_object *o = view_json("summary", v->path, &v->file), *sizes = json_object_new_object();
	size_t i;

	put_text(o, "build_id", s->build_id[0] ? s->build_id : NULL);
	json_bool_add(o, "static", s->hardening.is_static);
	put_text(o, "kernel", s->kernel);
	json_bool_add(o, "symbols", s->symbols);
	json_bool_add(o, "dwarf", s->dwarf);
	json_bool_add(o, "rewritten", summary_is_rewritten(s));
	json_object_object_add(o, "hardening", hardening_json(s));
	json_object_object_add(o, "code", code_json(s));
	for (i = 0; i < s->size_count; i++)
		json_number_add(sizes, s->sizes[i].section, s->sizes[i].bytes);
	json_object_object_add(o, "sizes", sizes);
	json_object_object_add(o, "unwind", unwind_json(s));
	sites_json(s, o);
	json_number_add(o, "exceptions", v->fixups.count);
	json_object_object_add(o, "exception_types", exceptions_json(s));
	json_number_add(o, "bytes_per_site", sizeof(struct etch_imv));
	json_number_add(o, "site_bytes", (v->tables.imv_capacity + v->tables.pv_capacity) * sizeof(struct etch_imv));
	json_object_object_add(o, "stay_loads", kept_json(&s->loads));
	json_object_object_add(o, "stay_calls", kept_json(&s->calls));
	json_object_object_add(o, "objects", listing_json(&s->objects));
	json_number_add(o, "functions_undecoded", v->scan.undecoded);
	json_object_object_add(o, "findings", findings_json(s));
	return o;
}

static void unwind_tsv(const struct summary *s)
{
	const struct unwind_view *u = s->unwind;
	const struct coverage *c = &s->table;
	unsigned i;

	printf("unwind_encoding\t%s\n", u->table ? u->table : "none");
	if (!u->table)
		return;
	printf("unwind_rows\t%zu\nunwind_bytes\t%" PRIu64 "\nunwind_text\t%" PRIu64 "\nunwind_covered\t%" PRIu64
	       "\nunwind_map\t%u\nunwind_undefined_rows\t%zu\n",
	       u->row_count, u->bytes, c->text, c->covered, u->header.map_shift ? 1u << u->header.map_shift : 0,
	       c->undefined_rows);
	for (i = 0; i < 4 && u->sources; i++)
		printf("unwind_source: %s\t%zu\n", row_source_text(i), c->source_rows[i]);
}

static void sites_tsv(const struct summary *s)
{
	size_t i;

	printf(
		"loads\t%zu\nsites\t%zu\nlive\t%zu\nlive_by_swap\t%zu\nimmediates\t%zu\nunfit\t%zu\nstores\t%zu\nescapes\t%zu\n"
		"bytes_per_site\t%zu\n",
		s->loads.all, s->loads.sites, s->loads.live, s->loads.swap, s->immediates, s->unfit, s->stores, s->escapes,
		sizeof(struct etch_imv));
	for (i = 0; i < s->loads.kept_count; i++)
		printf("stay_load: %s\t%zu\n", s->loads.kept[i].what, s->loads.kept[i].count);
	printf("calls\t%zu\ncall_sites\t%zu\nlive_calls\t%zu\nlive_calls_by_swap\t%zu\n", s->calls.all, s->calls.sites,
	       s->calls.live, s->calls.swap);
	for (i = 0; i < s->state_count; i++)
		printf("call_state: %s\t%zu\n", s->states[i].what, s->states[i].count);
	for (i = 0; i < s->calls.kept_count; i++)
		printf("stay_call: %s\t%zu\n", s->calls.kept[i].what, s->calls.kept[i].count);
}

/* New lines are only added at the end, since scripts may read lines by position. */
void summary_tsv(const struct summary *s)
{
	const struct coverage *c = &s->code;
	size_t i;

	printf("key\tvalue\nfile\t");
	text_clean(stdout, s->view->path);
	printf("\nkind\t%s\n", file_kind(&s->view->file));
	sites_tsv(s);
	unwind_tsv(s);
	printf("exceptions\t%zu\n", s->view->fixups.count);
	printf("build_id\t%s\n", s->build_id[0] ? s->build_id : "-");
	printf("code_bytes\t%" PRIu64 "\nfunctions\t%zu\ninstructions\t%" PRIu64 "\n", c->text, s->view->frames.functions,
	       s->view->frames.insns);
	for (i = 0; i < 4; i++)
		printf("coverage: %s\t%" PRIu64 "\n", row_source_text((unsigned)i), c->source[i]);
	printf("coverage: undefined\t%" PRIu64 "\n", c->text - c->padding - c->covered);
	for (i = 0; i < s->size_count; i++)
		printf("size: %s\t%" PRIu64 "\n", s->sizes[i].section, s->sizes[i].bytes);
	for (i = 0; i < 3; i++)
		printf("findings: %s\t%zu\n", severity_name((enum severity)i), s->severities[i]);
	for (i = 0; i < s->found_count; i++)
		printf("finding: %s\t%zu\n", s->found[i].what, s->found[i].count);
	printf("padding\t%" PRIu64 "\nundefined_in_functions\t%" PRIu64 "\nundefined_elsewhere\t%" PRIu64 "\n", c->padding,
	       s->view->frames.undefined, s->view->frames.elsewhere);
}
