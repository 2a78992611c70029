/* SPDX-License-Identifier: MIT */
/* Implements `etch inspect sites`: shows each instruction that uses an etched object. */
#include "arch/x86/insn.h"
#include "dwarf/lines.h"
#include "inspect/inspect.h"
#include "site/in_place.h"
#include "site/linked.h"

#include <inttypes.h>
#include <stdio.h>

static const struct column site_columns[] = {
	{"address", false}, {"length", true}, {"kind", false},  {"object", false}, {"offset", true},    {"size", true},
	{"form", false},    {"live", false},  {"state", false}, {"target", false}, {"function", false}, {"source", false},
};

/* A call site without a form does not record whether it is a "jmp" or a "call", so its instruction is decoded. */
const char *view_kind(const struct view *v, const struct site *s)
{
	static const char *const names[] = {"load", "call", "store", "escape"};
	struct elf_held held = elf_held(&v->file, s->section, s->addr);
	struct insn in;

	if (s->kind != SITE_CALL || s->entry.form == ETCH_FORM_CALL)
		return names[s->kind];
	if (s->entry.form == ETCH_FORM_JMP)
		return "jmp";
	return held.size && insn_decode(held.bytes, held.size, s->addr, &in) && in.flow == FLOW_JUMP_IND ? "jmp" : "call";
}

/* Lists the sites of pv_call_inline. */
static void in_place_list(const struct view *v, struct lines *lines, struct listing *l)
{
	size_t i;

	for (i = 0; i < v->tables.inline_count; i++) {
		const struct inline_row *r = &v->tables.inlines[i];
		uint32_t section = elf_section_at(&v->file, r->site), of = elf_section_at(&v->file, r->func);
		int32_t object = object_at(&v->scan, r->slot, false);
		char where[256], source[256], target[256] = "-";

		if (in_place_is_dropped(&v->file, r) || object < 0)
			continue;
		view_place(v, section, r->site, where, sizeof(where));
		if (of)
			view_place(v, of, r->func, target, sizeof(target));
		lines_find(lines, section, r->site, source, sizeof(source));
		listing_add(l, "%" PRIx64, r->site);
		listing_add(l, "%u", ETCH_INLINE_LEN);
		listing_add(l, "inline");
		listing_add(l, "%s", v->scan.objects.list[object].name);
		listing_add(l, "%" PRId64, (int64_t)(r->slot - v->scan.objects.list[object].addr));
		listing_add(l, "8");
		listing_add(l, "jmp-inline");
		listing_add(l, "yes");
		listing_add(l, v->in_place[i] ? "in place" : "call");
		listing_add(l, "%s", target);
		listing_add(l, "%s", where);
		listing_add(l, "%s", source);
	}
}

static const char *const patch_names[] = {
	[SITE_NOT_PATCHED] = "no", [SITE_BY_STORE] = "yes", [SITE_BY_SWAP] = "swap", [SITE_BY_LINKER] = "linker"};

/* For a site of a kind that is never patched, returns the text about the reason. */
static const char *unpatched_text(const struct site *s)
{
	if (s->kind == SITE_STORE)
		return "no: a plain store";
	return s->in_data ? "no: a data word holds the address" : "no: takes the address";
}

/* Lists all sites, then those of pv_call_inline. */
static void sites_list(const struct view *v, struct listing *l)
{
	struct lines *lines = v->scan.site_count || v->in_place ? lines_open(&v->file) : NULL;
	size_t i;

	listing_init(l, site_columns, sizeof(site_columns) / sizeof(site_columns[0]));
	for (i = 0; i < v->scan.site_count; i++) {
		const struct site *s = &v->scan.sites[i];
		bool patched = site_kind_is_patched(s->kind);
		char form[32] = "-", where[256], source[256], target[256];
		const char *why = NULL;
		enum site_patch how = patched ? site_patch(&v->scan, s, &why) : SITE_NOT_PATCHED;

		if (patched && !s->reason)
			site_form_name(&s->entry, form, sizeof(form));
		view_target(v, s, target, sizeof(target));
		view_place(v, s->section, s->addr, where, sizeof(where));
		if (s->in_data)
			snprintf(source, sizeof(source), "-");
		else
			lines_find(lines, s->section, s->addr, source, sizeof(source));
		listing_add(l, "%" PRIx64, s->addr);
		listing_add(l, "%u", s->len);
		listing_add(l, "%s", view_kind(v, s));
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
		if (why)
			listing_add(l, "no: %s", why);
		else if (patched)
			listing_add(l, "%s", patch_names[how]);
		else
			listing_add(l, "%s", unpatched_text(s));
		listing_add(l, "%s", view_state(v, s));
		listing_add(l, "%s", target);
		listing_add(l, "%s", where);
		listing_add(l, "%s", source);
	}
	if (v->in_place)
		in_place_list(v, lines, l);
	lines_close(lines);
}

void show_sites(const struct view *v, enum format format)
{
	struct listing l;

	sites_list(v, &l);
	view_list_print(v, "sites", &l, format, "no instruction touches an etched object");
	listing_free(&l);
}
