/* SPDX-License-Identifier: MIT */
/* etch inspect tables: the entries of __imv and __etch_obj of a linked file. */
#include "arch/x86/insn.h"
#include "inspect.h"

#include <etch/forms.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct column imv_columns[] = {
	{"site", false, false}, {"refers", false, false}, {"form", false, false},   {"register", true, false},
	{"base", true, false},  {"length", true, false},  {"address", false, false}, {"flags", false, false},
};
static const struct column obj_columns[] = {
	{"kind", false, false}, {"address", false, false}, {"size", true, false},
	{"ref", false, false},  {"flags", false, false},   {"name", false, false},
};

static void imv_list(const struct view *v, struct listing *l)
{
	static const char *const addressing[] = {"pc", "absolute", "register", "?"};
	size_t i;

	listing_init(l, imv_columns, sizeof(imv_columns) / sizeof(imv_columns[0]));
	for (i = 0; i < v->tables.imv_count; i++) {
		const struct imv_row *r = &v->tables.imv[i];
		struct site key = {.addr = r->site};
		bool baked = view_is_baked(v, &key), got = r->entry.flags & ETCH_IMV_GOT;
		char form[32];

		insn_form_name(r->entry.form, form, sizeof(form));
		listing_add(l, "%" PRIx64, r->site);
		listing_add(l, "%" PRIx64, r->obj);
		listing_add(l, "%s", form);
		listing_add(l, "%u", etch_imv_reg(&r->entry));
		if (etch_imv_addressing(&r->entry) == ETCH_ADDR_BASE)
			listing_add(l, "%u", etch_imv_base(&r->entry));
		else
			listing_add(l, "-");
		listing_add(l, "%u", etch_imv_len(&r->entry));
		listing_add(l, "%s", addressing[etch_imv_addressing(&r->entry)]);
		listing_add(l, "%s", baked && got ? "baked,got" : baked ? "baked" : got ? "got" : "-");
	}
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
		} else {
			strcat(flags, r->flags & ETCH_OBJ_GOT ? ",got" : "");
		}
		listing_add(l, "%s", kinds[r->kind]);
		listing_add(l, "%" PRIx64, r->addr);
		listing_add(l, "%" PRIu64, r->size);
		listing_add(l, "%" PRIx64, r->ref);
		listing_add(l, "%s", flags[0] ? flags + 1 : "-");
		listing_add(l, "%s", r->name ? r->name : "-");
	}
}

int show_tables(const struct view *v, enum format format)
{
	struct listing imv, obj;

	imv_list(v, &imv);
	obj_list(v, &obj);
	if (format == FORMAT_JSON) {
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "file", json_name(v->path));
		json_object_object_add(o, "linked", json_object_new_boolean(v->tables.flags & ETCH_MODULE_LINKED));
		json_object_object_add(o, "moved", json_object_new_boolean(v->tables.moved));
		json_object_object_add(o, "imv_address", json_object_new_int64((int64_t)v->tables.imv_addr));
		json_object_object_add(o, "imv_room", json_object_new_int64((int64_t)v->tables.imv_room));
		json_object_object_add(o, "obj_address", json_object_new_int64((int64_t)v->tables.obj_addr));
		json_object_object_add(o, "obj_room", json_object_new_int64((int64_t)v->tables.obj_room));
		json_object_object_add(o, "imv", listing_json(&imv));
		json_object_object_add(o, "obj", listing_json(&obj));
		json_print(o);
	} else {
		printf("%s" ETCH_SEC_IMV ": %zu entries of %zu bytes, room for %" PRIu64 ", at %" PRIx64 "%s%s\n",
		       format == FORMAT_TSV ? "# " : "", v->tables.imv_count, sizeof(struct etch_imv), v->tables.imv_room,
		       v->tables.imv_addr, v->tables.moved ? ", in the etch segment" : "",
		       v->tables.flags & ETCH_MODULE_LINKED ? "" : ", not sorted yet: no link step");
		listing_print(&imv, format);
		printf("%s" ETCH_SEC_OBJ ": %zu records of %zu bytes, room for %" PRIu64 ", at %" PRIx64 "\n",
		       format == FORMAT_TSV ? "# " : "\n", v->tables.obj_count, sizeof(struct etch_obj),
		       v->tables.obj_room, v->tables.obj_addr);
		listing_print(&obj, format);
	}
	listing_free(&imv);
	listing_free(&obj);
	return 0;
}
