/* SPDX-License-Identifier: MIT */
/* Prints `etch inspect code` as TSV and JSON (docs/schemas/inspect-code.json). */
#include "inspect/view_code.h"

#include "arch/x86/rule_text.h"
#include "arch/x86/fast_decoder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- TSV: new columns are only added at the end, since scripts read columns by position -- */

static const struct column code_columns[] = {
	{"address", false}, {"length", true},  {"changed", false},     {"cfa", false},   {"bp", false},    {"ra", false},
	{"kind", false},    {"source", false}, {"instruction", false}, {"site", false},  {"bytes", false}, {"flow", false},
	{"target", false},  {"name", false},   {"refers", false},      {"saved", false}, {"line", false},
};

/* The texts of an unwind row, one per column. */
struct row_texts {
	char cfa[64], bp[64], ra[64];
	const char *kind, *source;
};

static void row_text_make(const struct code_line *l, struct row_texts *t)
{
	strcpy(t->cfa, "undef");
	strcpy(t->bp, "undef");
	strcpy(t->ra, "undef");
	t->kind = l->row ? rule_kind_text(&l->row->rule) : "undef";
	t->source = l->row ? row_source_text(l->row->source) : "-";
	if (!l->row || l->row->rule.kind == ETCH_RULE_UNDEF)
		return;
	rule_cfa_text(&l->row->rule, t->cfa, sizeof(t->cfa));
	rule_bp_text(&l->row->rule, t->bp, sizeof(t->bp));
	rule_ra_text(&l->row->rule, t->ra, sizeof(t->ra));
}

static void bytes_text(const struct code_line *l, char *out, size_t size)
{
	unsigned i;

	out[0] = 0;
	for (i = 0; i < l->len && 2 * i + 2 < size; i++)
		snprintf(out + 2 * i, 3, "%02x", l->bytes[i]);
}

static void added_columns_add(const struct code *c, const struct code_line *l, struct listing *list)
{
	struct reference target = {0}, refers = {0};
	char bytes[32], saved[256], source[256];

	if (l->good) {
		operand_target(c->operands, c->place.section, &l->in, &target);
		operand_memory(c->operands, c->place.section, &l->in, &refers);
	}
	bytes_text(l, bytes, sizeof(bytes));
	code_saved_text(l, saved, sizeof(saved));
	lines_find(c->sources, c->place.section, l->addr, source, sizeof(source));
	listing_add(list, "%s", bytes);
	listing_add(list, "%s", code_flow_name(l));
	listing_add(list, target.placed ? "%" PRIx64 : "-", target.addr);
	listing_add(list, "%s", target.name[0] ? target.name : "-");
	listing_add(list, "%s", refers.name[0] ? refers.name : "-");
	listing_add(list, "%s", saved[0] ? saved : "-");
	listing_add(list, "%s", source);
}

void code_tsv(const struct code *c)
{
	struct listing list;
	uint32_t i;

	listing_init(&list, code_columns, sizeof(code_columns) / sizeof(code_columns[0]));
	for (i = 0; i < c->line_count; i++) {
		const struct code_line *l = &c->lines[i];
		char text[256], site[600];
		struct row_texts row;

		row_text_make(l, &row);
		code_insn_text(l, c->options->intel ? SYNTAX_INTEL : SYNTAX_ATT, text, sizeof(text));
		code_site_text(c, l, site, sizeof(site));
		listing_add(&list, "%" PRIx64, l->addr);
		listing_add(&list, "%u", l->len);
		listing_add(&list, "%s", l->changed ? "*" : " ");
		listing_add(&list, "%s", row.cfa);
		listing_add(&list, "%s", row.bp);
		listing_add(&list, "%s", row.ra);
		listing_add(&list, "%s", row.kind);
		listing_add(&list, "%s", row.source);
		listing_add(&list, "%s", text);
		listing_add(&list, "%s", site);
		added_columns_add(c, l, &list);
	}
	listing_print(&list, FORMAT_TSV);
	listing_free(&list);
}

/* ---- JSON ---------------------------------------------------------------------- */

static void put_text(struct json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, text && text[0] ? json_name(text) : NULL);
}

static void put_addr(struct json_object *o, const char *key, uint64_t addr)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIx64, addr);
	json_object_object_add(o, key, json_object_new_string(text));
}

static struct json_object *reference_json(const struct code *c, const struct reference *r)
{
	struct json_object *o;

	if (!r->known)
		return NULL;
	o = json_object_new_object();
	if (r->placed)
		put_addr(o, "address", r->addr);
	else
		json_object_object_add(o, "address", NULL);
	put_text(o, "section", r->placed && r->section ? c->file.sections[r->section].name : NULL);
	put_text(o, "name", r->name);
	put_text(o, "string", r->text);
	return o;
}

/* Makes the JSON of the state that the flow analysis has computed; null if control flow does not reach the line. */
static struct json_object *state_json(const struct code_line *l)
{
	struct json_object *o, *saved;
	char text[64];
	unsigned r;

	if (!l->known)
		return NULL;
	o = json_object_new_object();
	saved = json_object_new_object();
	rule_cfa_text(&l->known->rule, text, sizeof(text));
	put_text(o, "cfa", text);
	for (r = 0; r < 16; r++)
		if (STEP_CALLEE_SAVED >> r & 1) {
			code_where_text(l->known, r, text, sizeof(text));
			put_text(saved, reg_text(r), text);
		}
	json_object_object_add(o, "saved", saved);
	json_bool_add(o, "weak", l->known->weak);
	json_bool_add(o, "dead", l->known->dead);
	return o;
}

static struct json_object *site_json(const struct view *v, const struct site *s)
{
	struct json_object *o = json_object_new_object();
	bool patched = site_kind_is_patched(s->kind);
	const char *why = NULL;
	bool live = patched && site_is_live(&v->scan, s, &why);
	char form[32] = "", target[256] = "";

	if (patched && !s->reason)
		site_form_name(&s->entry, form, sizeof(form));
	view_target(v, s, target, sizeof(target));
	put_text(o, "kind", view_kind(v, s));
	put_text(o, "object", v->scan.objects.list[s->object].name);
	json_object_object_add(o, "offset", s->off_known ? json_object_new_int64(s->off) : NULL);
	json_object_object_add(o, "size", s->kind != SITE_ESCAPE ? json_object_new_int(s->size) : NULL);
	put_text(o, "form", form);
	json_bool_add(o, "live", live);
	put_text(o, "why", patched && !live ? why : NULL);
	put_text(o, "state", patched ? view_state(v, s) : NULL);
	put_text(o, "target", strcmp(target, "-") ? target : NULL);
	return o;
}

static struct json_object *inline_json(const struct code *c, const struct inline_row *r)
{
	const struct view *v = &c->view;
	struct json_object *o = json_object_new_object();
	char name[256], object[256];

	operand_name(c->operands, elf_section_at(&c->file, r->func), r->func, name, sizeof(name));
	operand_name(c->operands, elf_section_at(&c->file, r->slot), r->slot, object, sizeof(object));
	put_text(o, "kind", "inline");
	put_text(o, "object", object);
	json_object_object_add(o, "offset", NULL);
	json_number_add(o, "size", 8);
	put_text(o, "form", "jmp-inline");
	json_bool_add(o, "live", true);
	json_object_object_add(o, "why", NULL);
	put_text(o, "state", v->in_place[r - v->tables.inlines] ? "in place" : "call");
	put_text(o, "target", name);
	return o;
}

/* Makes the JSON of the site of a line; null if the line has none. */
static struct json_object *line_site_json(const struct code *c, const struct code_line *l)
{
	if (l->site)
		return site_json(&c->view, l->site);
	return l->inline_row ? inline_json(c, l->inline_row) : NULL;
}

static struct json_object *fault_json(const struct code *c, const struct fixup *x)
{
	const struct etch_ex raw = {.data = x->data};
	struct json_object *o = json_object_new_object();
	bool plain = etch_ex_type(&raw) == ETCH_EX_TYPE_PLAIN;
	char name[256];

	code_fixup_name(c, x, name, sizeof(name));
	put_text(o, "type", ex_type_name(x->data));
	json_object_object_add(o, "register", plain ? NULL : json_object_new_int((int)etch_ex_reg(&raw)));
	if (x->to_in == PLACE_CODE)
		put_addr(o, "to", x->to - c->base);
	else
		json_object_object_add(o, "to", NULL);
	put_text(o, "name", name);
	return o;
}

/* Makes the JSON of the jump table of an indirect jump, with the targets of its entries. */
static struct json_object *table_json(const struct code *c, const struct code_line *l)
{
	const struct detail_jump *j = detail_jump_at(&c->detail, c->base + l->addr);
	const struct detail_target *t = detail_targets_of(&c->detail, c->base + l->addr), *end;
	struct json_object *o, *targets;

	if (!j)
		return NULL;
	o = json_object_new_object();
	targets = json_object_new_array();
	if (j->table || j->section)
		put_addr(o, "address", j->table);
	else
		json_object_object_add(o, "address", NULL);
	put_text(o, "section", j->section ? c->file.sections[j->section].name : NULL);
	json_object_object_add(o, "entry_bytes", j->bytes ? json_object_new_int((int)j->bytes) : NULL);
	json_object_object_add(o, "entries", j->most ? json_object_new_int((int)j->most) : NULL);
	end = c->detail.targets + c->detail.target_count;
	for (; t && t < end && t->addr == j->addr; t++) {
		char text[32];

		snprintf(text, sizeof(text), "%" PRIx64, t->target - c->base);
		json_object_array_add(targets, json_object_new_string(text));
	}
	json_object_object_add(o, "targets", targets);
	if (!j->listed)
		json_bool_add(o, "listed", false);
	return o;
}

/* Adds the ways in which control reaches a line (struct incoming) to the JSON, as three lists. */
static void incoming_json(const struct code *c, const struct code_line *l, struct json_object *o)
{
	struct json_object *tables = json_object_new_array(), *pads = json_object_new_array();
	struct json_object *fixups = json_object_new_array();
	size_t count, i;
	const struct incoming *x = code_incoming(c, l, &count);

	for (i = 0; i < count; i++) {
		struct json_object *one = json_object_new_object();

		if (x[i].kind == INCOMING_PAD) {
			put_addr(one, "start", x[i].from - c->base);
			put_addr(one, "end", x[i].from + x[i].index - c->base);
			json_object_array_add(pads, one);
			continue;
		}
		put_addr(one, x[i].kind == INCOMING_TABLE ? "jump" : "instruction", x[i].from - c->base);
		if (x[i].kind == INCOMING_TABLE)
			json_number_add(one, "entry", x[i].index);
		json_object_array_add(x[i].kind == INCOMING_TABLE ? tables : fixups, one);
	}
	json_object_object_add(o, "entry_of", tables);
	json_object_object_add(o, "landing_pad_of", pads);
	json_object_object_add(o, "fixup_of", fixups);
}

static void flow_json(const struct code *c, const struct code_line *l, struct json_object *o)
{
	struct reference target = {0}, refers = {0};
	bool call = l->good && (l->in.flow == FLOW_CALL || l->in.flow == FLOW_CALL_IND);
	const struct detail_pad *pad = call ? detail_pad_of(&c->detail, c->base + l->addr) : NULL;

	if (l->good) {
		operand_target(c->operands, c->place.section, &l->in, &target);
		operand_memory(c->operands, c->place.section, &l->in, &refers);
	}
	put_text(o, "flow", code_flow_name(l));
	json_bool_add(o, "padding", l->good && l->in.padding);
	json_bool_add(o, "comes_back", !(l->known && l->known->ends));
	json_object_object_add(o, "target", reference_json(c, &target));
	json_bool_add(o, "arrow", l->to != NO_LINE);
	json_object_object_add(o, "refers", reference_json(c, &refers));
	json_object_object_add(o, "table", table_json(c, l));
	if (pad)
		put_addr(o, "landing_pad", pad->pad - c->base);
	else
		json_object_object_add(o, "landing_pad", NULL);
	incoming_json(c, l, o);
}

static struct json_object *line_json(const struct code *c, const struct code_line *l)
{
	struct json_object *o = json_object_new_object();
	struct row_texts row;
	char text[256], bytes[32];
	const char *file;
	int number = 0;

	row_text_make(l, &row);
	bytes_text(l, bytes, sizeof(bytes));
	put_addr(o, "address", l->addr);
	json_number_add(o, "length", l->len);
	put_text(o, "bytes", bytes);
	code_insn_text(l, SYNTAX_ATT, text, sizeof(text));
	put_text(o, "att", text);
	code_insn_text(l, SYNTAX_INTEL, text, sizeof(text));
	put_text(o, "intel", text);
	json_bool_add(o, "changed", l->changed);
	put_text(o, "cfa", row.cfa);
	put_text(o, "bp", row.bp);
	put_text(o, "ra", row.ra);
	put_text(o, "kind", row.kind);
	put_text(o, "source", strcmp(row.source, "-") && (c->generated || c->table.sources) ? row.source : NULL);
	json_object_object_add(o, "state", state_json(l));
	flow_json(c, l, o);
	json_object_object_add(o, "fault", l->fixup ? fault_json(c, l->fixup) : NULL);
	json_object_object_add(o, "site", line_site_json(c, l));
	file = lines_source(c->sources, c->place.section, l->addr, &number);
	put_text(o, "file", file);
	json_object_object_add(o, "line", file && number > 0 ? json_object_new_int(number) : NULL);
	return o;
}

struct json_object *code_json(const struct code *c)
{
	struct json_object *o = view_json("code", c->path, &c->file), *lines = json_object_new_array();
	char where[256];
	uint32_t i;

	elf_describe(&c->file, c->place.section, c->place.start, where, sizeof(where));
	put_text(o, "function", where);
	put_text(o, "section", c->file.sections[c->place.section].name);
	put_addr(o, "start", c->place.start);
	put_addr(o, "end", c->place.end);
	put_addr(o, "asked", c->asked);
	put_text(o, "table", c->table.table);
	json_bool_add(o, "generated", c->generated);
	for (i = 0; i < c->line_count; i++)
		json_object_array_add(lines, line_json(c, &c->lines[i]));
	json_object_object_add(o, "code", lines);
	return o;
}
