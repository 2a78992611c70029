/* SPDX-License-Identifier: MIT */
/* etch inspect code: a function's instructions, with the unwind row in force and the
 * site or the entry of an exception table, if there is one, beside each. */
#include "arch/x86/insn.h"
#include "code/func.h"
#include "elf/lines.h"
#include "inspect/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct column code_columns[] = {
	{"address", false, false}, {"length", true, false}, {"changed", false, false}, {"cfa", false, false},
	{"bp", false, false},      {"ra", false, false},    {"kind", false, false},    {"source", false, false},
	{"line", false, true},     {"instruction", false, false}, {"site", false, false},
};

/* A function's range from a place inside it. */
static int function_find(const struct elf_file *f, struct place *at, struct error *e)
{
	struct func_list list = {0};
	const struct func *fn = NULL;
	uint32_t i;

	if (at->function)
		return 0;
	if (func_list_build(f, &list, e))
		return -1;
	if (at->section)
		fn = func_find(&list, at->section, at->start);
	for (i = 1; i < f->section_count && !at->section && !fn; i++)
		if (f->sections[i].sh.sh_flags & SHF_EXECINSTR)
			fn = func_find(&list, i, at->start);
	if (fn)
		*at = (struct place){fn->section, fn->start, fn->end, true};
	func_list_free(&list);
	return fn ? 0 : error_set(e, "has no code at %" PRIx64, at->start);
}

/* The row in force, or null. `*next` is a hint that only grows. */
static const struct row *row_at(const struct row_list *rows, uint64_t addr, size_t *next)
{
	while (*next < rows->count && rows->rows[*next].addr <= addr)
		(*next)++;
	return *next ? &rows->rows[*next - 1] : NULL;
}

/* "immediate of limits+8: mov32, live", "direct call by ops+8 to run: call-rip, live" */
static void site_say(const struct view *v, const struct site *s, char *out, size_t size)
{
	static const char *const kinds[] = {"load", "call", "store", "escape"};
	const char *name = v->scan.objects.list[s->object].name, *why;
	char form[32] = "", off[32] = "", target[256] = "";
	bool live;

	if (s->off_known && s->off)
		snprintf(off, sizeof(off), "%+" PRId64, s->off);
	if (!site_kind_is_patched(s->kind)) {
		snprintf(out, size, "%s of %s%s", kinds[s->kind], name, off);
		return;
	}
	live = site_is_live(&v->scan, s, &why);
	if (!s->reason)
		site_form_name(&s->entry, form, sizeof(form));
	else
		snprintf(form, sizeof(form), "%s", s->kind == SITE_LOAD ? "no immediate form" : "no form");
	if (s->kind == SITE_CALL)
		view_target(v, s, target, sizeof(target));
	snprintf(out, size, "%s%s %s %s%s%s%s: %s, %s%s", view_state(v, s),
	         s->kind != SITE_CALL ? "" : s->entry.form == ETCH_FORM_JMP ? " jump" : " call",
	         s->kind == SITE_CALL ? "by" : "of", name, off, target[0] && target[0] != '-' ? " to " : "",
	         target[0] != '-' ? target : "", form, live ? "live" : "not live: ", live ? "" : why);
}

/* "may fault: efault of register 0, goes on at read_int+0x9"; "fixup" of such a place. */
static void fixup_say(const struct view *v, uint64_t addr, char *out, size_t size)
{
	const struct fixup *x = fixup_find(v->fixups.list, v->fixups.count, addr);
	const struct code_section *c = x && x->to_in == PLACE_CODE ? space_at(&v->space, x->to) : NULL;
	const struct etch_ex raw = {.data = x ? x->data : 0};
	char to[256] = "?";
	size_t i;

	snprintf(out, size, "-");
	if (c)
		elf_describe(&v->file, c->section, elf_is_object(&v->file) ? x->to - c->addr : x->to, to, sizeof(to));
	if (x && etch_ex_type(&raw) == ETCH_EX_TYPE_PLAIN)
		snprintf(out, size, "may fault: goes on at %s", to);
	else if (x)
		snprintf(out, size, "may fault: %s of register %u, goes on at %s", ex_type_name(x->data), etch_ex_reg(&raw), to);
	for (i = 0; i < v->fixups.count && !x; i++)
		if (v->fixups.list[i].to_in == PLACE_CODE && v->fixups.list[i].to == addr) {
			snprintf(out, size, "fixup");
			break;
		}
}

static void site_text(const struct view *v, uint32_t section, uint64_t addr, char *out, size_t size)
{
	const struct code_section *c = space_of(&v->space, section);
	size_t i;

	fixup_say(v, addr + (c && elf_is_object(&v->file) ? c->addr : 0), out, size);
	for (i = 0; i < v->scan.site_count; i++) {
		const struct site *s = &v->scan.sites[i];

		if (s->addr != addr || s->section != section || s->in_data)
			continue;
		site_say(v, s, out, size);
		return;
	}
}

static void row_cells(struct listing *l, const struct row *row, const struct row *before)
{
	char cfa[64] = "undef", bp[64] = "undef", ra[64] = "undef";
	bool known = row && row->rule.kind != ETCH_RULE_UNDEF;

	if (known) {
		rule_cfa_text(&row->rule, cfa, sizeof(cfa));
		rule_bp_text(&row->rule, bp, sizeof(bp));
		rule_ra_text(&row->rule, ra, sizeof(ra));
	}
	listing_add(l, "%s", row != before ? "*" : " ");
	listing_add(l, "%s", cfa);
	listing_add(l, "%s", bp);
	listing_add(l, "%s", ra);
	listing_add(l, "%s", row ? rule_kind_text(&row->rule) : "undef");
	listing_add(l, "%s", row ? row_source_text(row->source) : "-");
}

/* The bytes are those of the file; `v` has them as the linker wrote them. */
static void code_list(const struct elf_file *f, const struct view *v, const struct unwind_view *u,
                      const struct place *at, struct listing *l)
{
	const struct code_section *c = space_of(&u->space, at->section);
	struct lines *lines = lines_open(f);
	uint64_t addr = at->start, base = elf_is_object(f) ? c->addr : 0, end = at->end;
	const struct row *before = NULL;
	size_t hint = 0;

	if (end > c->addr - base + c->size)
		end = c->addr - base + c->size;
	while (addr < end) {
		uint64_t offset = addr - (c->addr - base);
		const uint8_t *bytes = c->bytes + offset;
		const struct row *row = row_at(&u->rows, base + addr, &hint);
		char text[160], source[256], site[600];
		struct insn in;
		bool good = insn_decode(bytes, end - addr, addr, &in);
		unsigned len = good ? in.len : 1;

		if (good)
			insn_text(bytes, len, addr, text, sizeof(text));
		else
			snprintf(text, sizeof(text), ".byte 0x%02x", *bytes);
		lines_find(lines, at->section, addr, source, sizeof(source));
		site_text(v, at->section, addr, site, sizeof(site));
		listing_add(l, "%" PRIx64, addr);
		listing_add(l, "%u", len);
		row_cells(l, row, before);
		listing_add(l, "%s", source);
		listing_add(l, "%s", text);
		listing_add(l, "%s", site);
		before = row;
		addr += len;
	}
	lines_close(lines);
}

int show_code(const char *path, const char *name, bool no_cfi, enum format format, struct error *e)
{
	struct elf_file file = {0};
	struct unwind_view unwind = {0};
	const struct code_section *code;
	struct view v = {0};
	struct listing l;
	struct place at;
	char where[256];
	int err = -1;

	listing_init(&l, code_columns, sizeof(code_columns) / sizeof(code_columns[0]));
	if (elf_open(&file, path, e) || place_find(&file, name, &at, e) || function_find(&file, &at, e) ||
	    view_load(&v, path, e) || unwind_view_load(&file, no_cfi ? UNWIND_CODE_ONLY : UNWIND_ANY, &unwind, e))
		goto out;
	code = space_of(&unwind.space, at.section);
	/* A symbol may say anything. */
	if (!code || at.start - (elf_is_object(&file) ? 0 : code->addr) >= code->size) {
		error_set(e, "has no code of '%.200s'", name);
		goto out;
	}
	code_list(&file, &v, &unwind, &at, &l);
	if (format == FORMAT_JSON) {
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "file", json_name(path));
		json_object_object_add(o, "generated", json_object_new_boolean(unwind.generated));
		json_object_object_add(o, "code", listing_json(&l));
		json_print(o);
	} else {
		elf_describe(&file, at.section, at.start, where, sizeof(where));
		if (format == FORMAT_TEXT)
			printf("%s: %s, %s\n", path, where, !unwind.generated ? "rows of its table"
			       : unwind.table ? "rows generated" : "no table in the file; rows generated");
		listing_print(&l, format);
	}
	err = 0;
out:
	listing_free(&l);
	unwind_view_free(&unwind);
	view_free(&v);
	elf_close(&file);
	return err;
}
