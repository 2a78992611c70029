/* SPDX-License-Identifier: MIT */
/*
 * Implements `etch inspect tables`: shows the entries of __imv, __pv_sites, __etch_obj, __pv_native, __pv_inline and
 * __ex_table of a linked file.
 */
#include "inspect/inspect.h"
#include "site/in_place.h"
#include "support/memory.h"

#include <etch/forms.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct column imv_columns[] = {
	{"site", false},    {"refers", false}, {"form", false},    {"register", true}, {"base", true},   {"length", true},
	{"address", false}, {"offset", true},  {"constant", true}, {"asked", false},   {"flags", false},
};
static const struct column pv_columns[] = {
	{"site", false},  {"refers", false}, {"form", false},  {"register", true},
	{"offset", true}, {"length", true},  {"flags", false},
};
static const struct column native_columns[] = {
	{"function", false}, {"code", false}, {"length", true}, {"flags", false}, {"name", false},
};
static const struct column inline_columns[] = {
	{"site", false},
	{"slot", false},
	{"function", false},
	{"state", false},
};
static const struct column ex_columns[] = {
	{"instruction", false}, {"fixup", false}, {"type", false}, {"register", true},
	{"immediate", true},    {"name", false},  {"to", false},
};
static const struct column obj_columns[] = {
	{"kind", false}, {"address", false}, {"size", true}, {"ref", false}, {"flags", false}, {"name", false},
};

/* Adds the cells for the second record of an entry (ETCH_IMV_MORE). */
static void more_list(const struct imv_row *r, struct listing *l)
{
	static const char *const asked[] = {"-", "equal", "below", "equal,below", "less", "equal,less", "?", "?"};
	bool flags = etch_form_is_flags(r->entry.form);

	listing_add(l, etch_imv_addressing(&r->entry) == ETCH_ADDR_DISP ? "%" PRId32 : "-", r->more.disp);
	listing_add(l, flags ? "%" PRId32 : "-", r->more.imm);
	listing_add(l, "%s", flags ? asked[r->more.need & ETCH_NEED_FLAGS] : "-");
}

/* Returns the flags of an entry of __imv as text. An entry cannot be both "baked" and "got": the format forbids it. */
static const char *imv_flags(const struct view *v, const struct imv_row *r)
{
	bool more = r->entry.flags & ETCH_IMV_MORE;

	if (view_is_baked(v, r->site))
		return more ? "baked,more" : "baked";
	if (r->entry.flags & ETCH_IMV_GOT)
		return more ? "got,more" : "got";
	return more ? "more" : "-";
}

static void imv_list(const struct view *v, struct listing *l)
{
	static const char *const addressing[] = {"pc", "absolute", "register", "offset"};
	size_t i;

	listing_init(l, imv_columns, sizeof(imv_columns) / sizeof(imv_columns[0]));
	for (i = 0; i < v->tables.imv_count; i++) {
		const struct imv_row *r = &v->tables.imv[i];
		char form[32];

		site_form_name(&r->entry, form, sizeof(form));
		listing_add(l, "%" PRIx64, r->site);
		listing_add(l, "%" PRIx64, r->obj);
		listing_add(l, "%s", form);
		listing_add(l, "%u", etch_imv_reg(&r->entry));
		if (etch_imv_addressing(&r->entry) >= ETCH_ADDR_BASE)
			listing_add(l, "%u", etch_imv_base(&r->entry));
		else
			listing_add(l, "-");
		listing_add(l, "%u", etch_imv_len(&r->entry));
		listing_add(l, "%s", addressing[etch_imv_addressing(&r->entry)]);
		more_list(r, l);
		listing_add(l, "%s", imv_flags(v, r));
	}
}

static void pv_list(const struct view *v, struct listing *l)
{
	size_t i;

	listing_init(l, pv_columns, sizeof(pv_columns) / sizeof(pv_columns[0]));
	for (i = 0; i < v->tables.pv_count; i++) {
		const struct imv_row *r = &v->tables.pv[i];
		unsigned mode = etch_imv_addressing(&r->entry);
		char form[32], flags[64] = "";

		site_form_name(&r->entry, form, sizeof(form));
		strcat(flags, view_is_baked(v, r->site) ? ",baked" : "");
		strcat(flags, r->entry.flags & ETCH_IMV_GOT ? ",got" : "");
		strcat(flags, r->entry.shape & ETCH_PV_NOTRACK ? ",notrack" : "");
		listing_add(l, "%" PRIx64, r->site);
		listing_add(l, "%" PRIx64, r->obj);
		listing_add(l, "%s", form);
		if (mode == ETCH_ADDR_BASE || mode == ETCH_ADDR_REG)
			listing_add(l, "%u", etch_pv_reg(&r->entry));
		else
			listing_add(l, "-");
		if (mode == ETCH_ADDR_BASE)
			listing_add(l, "%d", etch_pv_disp(&r->entry));
		else
			listing_add(l, "-");
		listing_add(l, "%u", etch_imv_len(&r->entry));
		listing_add(l, "%s", flags[0] ? flags + 1 : "-");
	}
}

static const char *native_flags(const struct native_row *r)
{
	if (!(r->flags & ETCH_NATIVE_CHECKED))
		return "-";
	return r->flags & ETCH_NATIVE_ONE ? "checked,one" : "checked";
}

static void native_list(const struct view *v, struct listing *l)
{
	char name[256];
	size_t i;

	listing_init(l, native_columns, sizeof(native_columns) / sizeof(native_columns[0]));
	for (i = 0; i < v->tables.native_count; i++) {
		const struct native_row *r = &v->tables.natives[i];
		uint32_t section = elf_section_at(&v->file, r->func);

		snprintf(name, sizeof(name), "-");
		if (section)
			view_place(v, section, r->func, name, sizeof(name));
		listing_add(l, "%" PRIx64, r->func);
		listing_add(l, "%" PRIx64, r->code);
		listing_add(l, "%u", r->len);
		listing_add(l, "%s", native_flags(r));
		listing_add(l, "%s", name);
	}
}

static const char *inline_state(const struct view *v, size_t i)
{
	if (in_place_is_dropped(&v->file, &v->tables.inlines[i]))
		return "dropped";
	return v->in_place[i] ? "in place" : "call";
}

static void inline_list(const struct view *v, struct listing *l)
{
	size_t i;

	listing_init(l, inline_columns, sizeof(inline_columns) / sizeof(inline_columns[0]));
	for (i = 0; i < v->tables.inline_count; i++) {
		const struct inline_row *r = &v->tables.inlines[i];

		listing_add(l, "%" PRIx64, r->site);
		listing_add(l, "%" PRIx64, r->slot);
		listing_add(l, "%" PRIx64, r->func);
		listing_add(l, "%s", inline_state(v, i));
	}
}

/* Adds a cell with the name of an address, or "-". */
static void place_add(const struct view *v, struct listing *l, uint64_t addr)
{
	uint32_t section = elf_section_at(&v->file, addr);
	char name[256] = "-";

	if (section)
		view_place(v, section, addr, name, sizeof(name));
	listing_add(l, "%s", name);
}

static int file_order(const void *a, const void *b)
{
	const struct fixup *x = a, *y = b;

	if (x->table != y->table)
		return x->table < y->table ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* Lists the entries of __ex_table in file order, with "-" for entries of discarded code. */
static void ex_list(const struct view *v, struct listing *l)
{
	const struct fixups *x = &v->fixups;
	struct fixup *list = mem_copy(x->list, x->count * sizeof(*list));
	size_t i;

	listing_init(l, ex_columns, sizeof(ex_columns) / sizeof(ex_columns[0]));
	if (x->count)
		qsort(list, x->count, sizeof(*list), file_order);
	for (i = 0; i < x->count; i++) {
		const struct fixup *r = &list[i];
		const struct etch_ex raw = {.data = r->data};
		unsigned type = etch_ex_type(&raw);

		if (r->insn_in == PLACE_NONE) {
			listing_add(l, "-");
			listing_add(l, "-");
		} else {
			listing_add(l, "%" PRIx64, r->insn);
			listing_add(l, "%" PRIx64, r->to);
		}
		listing_add(l, "%s", ex_type_name(r->data));
		if (type == ETCH_EX_TYPE_PLAIN)
			listing_add(l, "-");
		else
			listing_add(l, "%u", etch_ex_reg(&raw));
		if (type == ETCH_EX_TYPE_LEN)
			listing_add(l, "%d", etch_ex_imm(&raw));
		else
			listing_add(l, "-");
		place_add(v, l, r->insn_in == PLACE_NONE ? 0 : r->insn);
		place_add(v, l, r->insn_in == PLACE_NONE ? 0 : r->to);
	}
	free(list);
}

/* Returns "sorted", or a text about what is wrong with __ex_table. */
static const char *ex_state(const struct view *v)
{
	uint32_t i;

	for (i = 0; i < v->fixups.table_count; i++) {
		const struct fixup_table *t = &v->fixups.tables[i];

		if (t->other_format)
			return t->other_format;
		if (t->bad)
			return "malformed: libetch ignores it";
		if (!t->sorted)
			return "not sorted: no link step";
	}
	return "sorted";
}

static void obj_list(const struct view *v, struct listing *l)
{
	static const char *const kinds[] = {"none", "object", "store", "escape"};
	size_t i;

	listing_init(l, obj_columns, sizeof(obj_columns) / sizeof(obj_columns[0]));
	for (i = 0; i < v->tables.obj_count; i++) {
		const struct obj_row *r = &v->tables.obj[i];
		char flags[64] = "";

		if (r->kind == ETCH_OBJ_OBJECT) {
			strcat(flags, r->flags & ETCH_OBJ_STORED ? ",stored" : "");
			strcat(flags, r->flags & ETCH_OBJ_ESCAPED ? ",escaped" : "");
			strcat(flags, r->flags & ETCH_OBJ_ARMED ? ",armed" : "");
			strcat(flags, r->flags & ETCH_OBJ_SHARED ? ",shared" : "");
			strcat(flags, r->flags & ETCH_OBJ_OPEN ? ",open" : "");
			strcat(flags, r->flags & ETCH_OBJ_PART ? ",part" : "");
			strcat(flags, r->flags & ETCH_OBJ_VALUE ? ",value" : "");
		} else {
			strcat(flags, r->flags & ETCH_OBJ_GOT ? ",got" : "");
		}
		strcat(flags, r->more & ETCH_OBJ_FIELD ? ",field" : "");
		strcat(flags, r->more & ETCH_OBJ_KEPT ? ",kept" : "");
		strcat(flags, r->more & ETCH_OBJ_VAGUE ? ",vague" : "");
		strcat(flags, r->more & ETCH_OBJ_DENSE ? ",dense" : "");
		strcat(flags, r->more & ETCH_OBJ_KERNEL ? ",kernel" : "");
		listing_add(l, "%s", kinds[r->kind]);
		listing_add(l, "%" PRIx64, r->addr);
		listing_add(l, "%" PRIu64, r->size);
		listing_add(l, "%" PRIx64, r->ref);
		listing_add(l, "%s", flags[0] ? flags + 1 : "-");
		listing_add(l, "%s", r->name ? r->name : "-");
	}
}

static struct json_object *entry_bytes_json(void)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "imv", json_object_new_int(sizeof(struct etch_imv)));
	json_object_object_add(o, "pv", json_object_new_int(sizeof(struct etch_imv)));
	json_object_object_add(o, "obj", json_object_new_int(sizeof(struct etch_obj)));
	json_object_object_add(o, "native", json_object_new_int(sizeof(struct etch_native)));
	json_object_object_add(o, "inline", json_object_new_int(sizeof(struct etch_inline)));
	json_object_object_add(o, "ex", json_object_new_int(sizeof(struct etch_ex)));
	return o;
}

struct table_lists {
	struct listing imv, obj, pv, native, in_place, ex;
};

static void tables_json(const struct view *v, const struct table_lists *t)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "format", json_object_new_string("etch-inspect-tables"));
	json_object_object_add(o, "version", json_object_new_int(1));
	json_object_object_add(o, "file", json_name(v->path));
	json_object_object_add(o, "linked", json_object_new_boolean(v->tables.flags & ETCH_MODULE_LINKED));
	json_object_object_add(o, "moved", json_object_new_boolean(v->tables.moved));
	json_object_object_add(o, "imv_address", json_object_new_int64((int64_t)v->tables.imv_addr));
	json_object_object_add(o, "imv_room", json_object_new_int64((int64_t)v->tables.imv_capacity));
	json_object_object_add(o, "pv_address", json_object_new_int64((int64_t)v->tables.pv_addr));
	json_object_object_add(o, "pv_room", json_object_new_int64((int64_t)v->tables.pv_capacity));
	json_object_object_add(o, "obj_address", json_object_new_int64((int64_t)v->tables.obj_addr));
	json_object_object_add(o, "obj_room", json_object_new_int64((int64_t)v->tables.obj_capacity));
	json_object_object_add(o, "entry_bytes", entry_bytes_json());
	json_object_object_add(o, "imv", listing_json(&t->imv));
	json_object_object_add(o, "pv", listing_json(&t->pv));
	json_object_object_add(o, "obj", listing_json(&t->obj));
	json_object_object_add(o, "native", listing_json(&t->native));
	json_object_object_add(o, "inline", listing_json(&t->in_place));
	json_object_object_add(o, "ex_state", v->fixups.table_count ? json_object_new_string(ex_state(v)) : NULL);
	json_object_object_add(o, "ex", listing_json(&t->ex));
	json_print(o);
}

int show_tables(const struct view *v, enum format format)
{
	const char *mark = format == FORMAT_TSV ? "# " : "\n";
	struct table_lists t;

	imv_list(v, &t.imv);
	obj_list(v, &t.obj);
	pv_list(v, &t.pv);
	native_list(v, &t.native);
	inline_list(v, &t.in_place);
	ex_list(v, &t.ex);
	if (format == FORMAT_JSON) {
		tables_json(v, &t);
	} else {
		printf("%s" ETCH_SEC_IMV ": %zu %s of %zu bytes, space for %" PRIu64 ", at %" PRIx64 "%s%s\n",
		       format == FORMAT_TSV ? "# " : "", v->tables.imv_count, v->tables.imv_count == 1 ? "entry" : "entries",
		       sizeof(struct etch_imv), v->tables.imv_capacity, v->tables.imv_addr,
		       v->tables.moved ? ", in the etch segment" : "",
		       v->tables.flags & ETCH_MODULE_LINKED ? "" : ", not sorted yet: no link step");
		listing_print(&t.imv, format);
		printf("%s" ETCH_SEC_OBJ ": %zu %s of %zu bytes, space for %" PRIu64 ", at %" PRIx64 "\n", mark,
		       v->tables.obj_count, v->tables.obj_count == 1 ? "record" : "records", sizeof(struct etch_obj),
		       v->tables.obj_capacity, v->tables.obj_addr);
		listing_print(&t.obj, format);
		if (v->tables.pv_capacity) {
			printf("%s" ETCH_SEC_PV ": %zu %s of %zu bytes, space for %" PRIu64 ", at %" PRIx64 "\n", mark,
			       v->tables.pv_count, v->tables.pv_count == 1 ? "entry" : "entries", sizeof(struct etch_imv),
			       v->tables.pv_capacity, v->tables.pv_addr);
			listing_print(&t.pv, format);
		}
		if (v->tables.native_count) {
			printf("%s" ETCH_SEC_NATIVE ": %zu %s of %zu bytes\n", mark, v->tables.native_count,
			       v->tables.native_count == 1 ? "record" : "records", sizeof(struct etch_native));
			listing_print(&t.native, format);
		}
		if (v->tables.inline_count) {
			printf("%s" ETCH_SEC_INLINE ": %zu %s of %zu bytes\n", mark, v->tables.inline_count,
			       v->tables.inline_count == 1 ? "entry" : "entries", sizeof(struct etch_inline));
			listing_print(&t.in_place, format);
		}
		if (v->fixups.table_count) {
			printf("%s" ETCH_SEC_EXTABLE ": %zu %s of %zu bytes, %s\n", mark, v->fixups.count,
			       v->fixups.count == 1 ? "entry" : "entries", sizeof(struct etch_ex), ex_state(v));
			listing_print(&t.ex, format);
		}
	}
	listing_free(&t.imv);
	listing_free(&t.obj);
	listing_free(&t.pv);
	listing_free(&t.native);
	listing_free(&t.in_place);
	listing_free(&t.ex);
	return 0;
}
