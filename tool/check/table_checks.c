/* SPDX-License-Identifier: MIT */
/* Implements ETCH-T003 for the tables of sites: rows that do not match the code. */
#include "arch/x86/insn.h"
#include "check/check.h"
#include "site/in_place.h"

#include <etch/pv_forms.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/*
 * Writes the bytes of an instruction as text ("mov $0x1, %eax"), or in hexadecimal if they are not exactly one
 * instruction.
 */
static void bytes_text(const uint8_t *p, unsigned len, uint64_t addr, char *out, size_t size)
{
	static const char hex[] = "0123456789abcdef";
	struct insn in;
	unsigned i;

	if (insn_decode(p, len, addr, &in) && in.len == len) {
		insn_text(p, len, addr, out, size);
		return;
	}
	for (i = 0; i < len && 3 * i + 3 < size; i++) {
		out[3 * i] = hex[p[i] >> 4];
		out[3 * i + 1] = hex[p[i] & 15];
		out[3 * i + 2] = i + 1 < len ? ' ' : 0;
	}
}

static void bytes_fact(struct finding *x, const char *label, const uint8_t *p, unsigned len, uint64_t addr)
{
	char text[160];

	if (!p)
		return;
	bytes_text(p, len, addr, text, sizeof(text));
	finding_fact(x, label, "%s", text);
}

/* ---- sites ------------------------------------------------------------------- */

static void mismatch_add(void *ctx, const struct site_mismatch *mismatch)
{
	struct subject *s = ctx;
	bool was = mismatch->row->entry.flags & ETCH_IMV_BAKED;
	const char *plain = mismatch->call ? "indirect call" : "load";
	uint64_t at = mismatch->row->site;
	struct finding *x;

	if (!mismatch->found)
		x = finding_add(&s->found, "ETCH-T003", 0, at, "a table entry is for %#" PRIx64 ", where the file has no code",
		                at);
	else if (was && mismatch->plain && !memcmp(mismatch->found, mismatch->plain, mismatch->len))
		x = finding_add(&s->found, "ETCH-T003", elf_section_at(s->file, at), at,
		                "the table says that this %s is patched, but it is not", plain);
	else if (was)
		x = finding_add(&s->found, "ETCH-T003", elf_section_at(s->file, at), at,
		                "the code is neither what etch rewrite put here nor the %s that it replaced", plain);
	else
		x = finding_add(&s->found, "ETCH-T003", elf_section_at(s->file, at), at,
		                "the code is not the %s that the table describes", plain);
	if (!mismatch->found)
		return;
	bytes_fact(x, "found", mismatch->found, mismatch->len, at);
	bytes_fact(x, "expected for the value in memory", mismatch->baked, mismatch->len, at);
	bytes_fact(x, mismatch->call ? "call in the table" : "load in the table", mismatch->plain, mismatch->len, at);
}

/*
 * Compares a site of pv_call_inline with its row. Returns null if the code matches the row, otherwise the reason why it
 * does not. A nop is right only if the slot's initial value is the function whose body was inlined.
 */
static const char *in_place_reason(const struct subject *s, const struct targets *targets, const struct inline_row *row,
                                   const uint8_t *bytes)
{
	int state = etch_inline_state(bytes);
	uint64_t target;

	if (state < 0)
		return "the code is neither the jump of pv_call_inline nor the nop that replaces it";
	if (state && (s->tables.flags & ETCH_MODULE_LINKED) &&
	    (!target_known(targets, row->slot, &target) || target != row->func))
		return "the code runs the inline copy, but the initial value of its slot is another function";
	return NULL;
}

/*
 * Checks the sites of pv_call_inline, and removes the rows that do not match from the table. Returns 0, or -1 and a
 * message.
 */
static int in_place_check(struct subject *s, struct elf_file *f, struct error *e)
{
	struct linked_tables *t = &s->tables;
	struct targets targets;
	size_t i, n = 0;
	int err;

	if (!t->inline_count)
		return 0;
	err = targets_open(&targets, f, t, e);
	for (i = 0; i < t->inline_count && !err; i++) {
		const struct inline_row *row = &t->inlines[i];
		const uint8_t *p = in_place_is_dropped(f, row) ? NULL : elf_at(f, row->site, ETCH_INLINE_LEN);
		const char *why = p ? in_place_reason(s, &targets, row, p) : NULL;
		struct finding *x;

		if (!why) {
			t->inlines[n++] = *row;
			continue;
		}
		x = finding_add(&s->found, "ETCH-T003", elf_section_at(f, row->site), row->site, "%s", why);
		bytes_fact(x, "found", p, ETCH_INLINE_LEN, row->site);
	}
	targets_close(&targets);
	t->inline_count = n;
	return err || in_place_unbake(f, t, e) ? -1 : 0;
}

/* Compares rows by the order that libetch requires when it searches the table: docs/formats.md, "__imv". */
static int row_order(const struct imv_row *a, const struct imv_row *b)
{
	unsigned x = a->entry.flags & ETCH_IMV_GOT, y = b->entry.flags & ETCH_IMV_GOT;

	if (x != y)
		return x < y ? -1 : 1;
	if (a->obj != b->obj)
		return a->obj < b->obj ? -1 : 1;
	return a->site < b->site ? -1 : a->site > b->site;
}

static void order_check(struct subject *s, const char *name, const struct imv_row *rows, size_t count, uint64_t table)
{
	size_t i;

	for (i = 1; i < count; i++) {
		if (row_order(&rows[i - 1], &rows[i]) <= 0)
			continue;
		finding_add(&s->found, "ETCH-T003", elf_section_at(s->file, table), table,
		            "entries %zu and %zu of %s are out of order: libetch uses binary search", i - 1, i, name);
		return;
	}
}

int check_tables_open(struct subject *s, struct elf_file *f, struct error *e)
{
	struct linked_tables *t = &s->tables;
	struct error why;
	int r = linked_tables_read(f, t, &why);

	if (r > 0)
		return 1;
	if (r < 0) {
		linked_tables_free(t);
		finding_add(&s->found, "ETCH-T003", 0, 0, "%s", why.text);
		return 0;
	}
	if (t->flags & ETCH_MODULE_LINKED) {
		order_check(s, ETCH_SEC_IMV, t->imv, t->imv_count, t->imv_addr);
		order_check(s, ETCH_SEC_PV, t->pv, t->pv_count, t->pv_addr);
	}
	return sites_unbake_each(f, t, mismatch_add, s, e) || in_place_check(s, f, e) ? -1 : 0;
}

/* ---- objects ------------------------------------------------------------------ */

/*
 * Compares the record of an object, which says that the object is armed, with the code, and adds a finding if they
 * disagree.
 */
static void record_check(struct subject *s, const struct obj_row *row)
{
	size_t i;

	for (i = 0; i < s->scan.objects.defined; i++) {
		const struct object *o = &s->scan.objects.list[i];
		struct finding *x;
		size_t k;

		if (row->addr < o->addr || row->addr - o->addr >= o->size || !o->facts)
			continue;
		if (o->bounded && !object_stored(o, row->addr - o->addr, row->addr - o->addr + row->size))
			return;
		x = finding_add(&s->found, "ETCH-T003", elf_section_at(s->file, row->addr), row->addr,
		                "the record of %s says that it is armed, but the code %s", o->name,
		                o->facts & ETCH_OBJ_STORED ? "stores to it directly" : "lets its address escape");
		for (k = 0; k < s->scan.site_count; k++) {
			const struct site *site = &s->scan.sites[k];

			if (site->object != (int32_t)i || site_kind_is_patched(site->kind))
				continue;
			finding_fact_at(x, site->section, site->addr, site->kind == SITE_STORE ? "stored to" : "address taken",
			                "%s", o->name);
			break;
		}
		return;
	}
}

void check_tables(struct subject *s)
{
	size_t i;

	for (i = 0; i < s->tables.obj_count; i++) {
		const struct obj_row *row = &s->tables.obj[i];

		if (row->kind == ETCH_OBJ_OBJECT && (row->flags & ETCH_OBJ_ARMED) &&
		    !(row->flags & (ETCH_OBJ_STORED | ETCH_OBJ_ESCAPED)))
			record_check(s, row);
	}
}
