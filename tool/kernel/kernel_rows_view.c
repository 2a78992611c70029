/* SPDX-License-Identifier: MIT */
/*
 * Prints the rows that the kernel's objtool made (kernel_views.h), in the columns for etch's own rows. A vmlinux has
 * half a million rows, so they are printed one by one, without a listing.
 */
#include "kernel/kernel_views.h"

#include "kernel/kernel_orc.h"
#include "report/text.h"
#include "support/plain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct printer {
	const struct kernel *k;
	enum format format;
	size_t count;
	const struct kernel_symbol *last; /* the symbol of the previous row */
};

/* The texts in the columns of a row. */
struct texts {
	char address[20], cfa[64], bp[64], ra[64];
	const char *section;
};

/* Returns the symbol that contains a row, or null. */
static const struct kernel_symbol *row_symbol(const struct printer *p, const struct kernel_row *r)
{
	return r->place.kind == KPLACE_SECTION ? kernel_symbol_at(p->k, r->place.section, r->place.addr) : NULL;
}

/* Writes the symbol and the offset of a row, or an empty string if no symbol contains it. */
static void row_function(const struct printer *p, const struct kernel_row *r, char *out, size_t size)
{
	out[0] = 0;
	if (row_symbol(p, r))
		kernel_place_name(p->k, &r->place, out, size);
	plain(out);
}

/* Prints a row as JSON. Only names can contain characters that need escapes. */
static void row_json(struct printer *p, const struct kernel_row *r, const struct texts *t)
{
	const char *quote = t->address[0] == '-' ? "" : "\"";
	struct json_object *section = json_name(t->section), *function;
	char name[256];

	row_function(p, r, name, sizeof(name));
	function = name[0] ? json_name(name) : NULL;
	printf("%s\n    {\"address\": %s%s%s, \"size\": %" PRIu64 ", \"cfa\": \"%s\", \"bp\": \"%s\", \"ra\": \"%s\", "
	       "\"kind\": \"%s\", \"source\": \"objtool\"",
	       p->count ? "," : "", quote, *quote ? t->address : "null", quote, r->size, t->cfa, t->bp, t->ra,
	       kernel_orc_kind_text(&r->orc));
	if (elf_is_object(p->k->file)) {
		printf(", \"section\": ");
		json_put(stdout, section, JSON_C_TO_STRING_SPACED);
	}
	printf(", \"function\": ");
	json_put(stdout, function, JSON_C_TO_STRING_SPACED);
	if (r->problem)
		printf(", \"problem\": \"%s\"", r->problem);
	putchar('}');
	json_object_put(section);
	json_object_put(function);
}

static void row_tsv(const struct printer *p, const struct kernel_row *r, const struct texts *t)
{
	char name[256];

	row_function(p, r, name, sizeof(name));
	printf("%s\t%" PRIx64 "\t%s\t%s\t%s\t%s\tobjtool", t->address, r->size, t->cfa, t->bp, t->ra,
	       kernel_orc_kind_text(&r->orc));
	if (elf_is_object(p->k->file))
		printf("\t%.*s", (int)strcspn(t->section, "\t\n\r"), t->section);
	printf("\t%s\n", name[0] ? name : "-");
}

/* Prints a row as text. The name of a symbol is printed only on its first row. */
static void row_text(struct printer *p, const struct kernel_row *r, const struct texts *t)
{
	const struct kernel_symbol *s = row_symbol(p, r);
	char name[256];

	printf("%16s  %6" PRIx64 "  %-15s  %-12s  %-11s  %-6s", t->address, r->size, t->cfa, t->bp, t->ra,
	       kernel_orc_kind_text(&r->orc));
	if (r->problem) {
		printf("  %s", r->problem);
	} else if (s && s != p->last) {
		kernel_place_name(p->k, &r->place, name, sizeof(name));
		printf("  %s", name);
	}
	p->last = s;
	putchar('\n');
}

static void row_print(struct printer *p, const struct kernel_row *r)
{
	struct texts t = {.section = "-"};

	snprintf(t.address, sizeof(t.address), "-");
	if (r->place.kind == KPLACE_SECTION || r->place.kind == KPLACE_OUTSIDE)
		snprintf(t.address, sizeof(t.address), "%" PRIx64, r->place.addr);
	if (r->place.section)
		t.section = p->k->file->sections[r->place.section].name;
	kernel_orc_cfa_text(&r->orc, t.cfa, sizeof(t.cfa));
	kernel_orc_bp_text(&r->orc, t.bp, sizeof(t.bp));
	kernel_orc_ra_text(&r->orc, t.ra, sizeof(t.ra));
	if (p->format == FORMAT_JSON)
		row_json(p, r, &t);
	else if (p->format == FORMAT_TSV)
		row_tsv(p, r, &t);
	else
		row_text(p, r, &t);
	p->count++;
}

/* ---- the range of --at --------------------------------------------------------------- */

/*
 * Finds the range of a symbol of the file or of the System.map of --symbols. The range ends where the symbol ends or,
 * if it has no size, at the next symbol.
 */
static bool symbol_find(const struct kernel *k, const char *name, struct kernel_range *out)
{
	const struct kernel_symbol *s = kernel_symbol_named(k, name), *end = k->symbols.list + k->symbols.count, *next;

	if (!s || !s->section)
		return false;
	for (next = s; next < end && next->section == s->section && next->value == s->value; next++)
		;
	*out = (struct kernel_range){s->section, s->value, s->value + s->size};
	if (!s->size)
		out->end = next < end && next->section == s->section ? next->value : UINT64_MAX;
	return true;
}

/* Finds the single address that "name+0x10" names. */
static bool offset_find(const struct kernel *k, const char *at, struct kernel_range *out)
{
	const char *plus = strrchr(at, '+');
	char name[256], *end;
	uint64_t offset;

	if (!plus || strncmp(plus, "+0x", 3) || (size_t)(plus - at) >= sizeof(name))
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)(plus - at), at);
	offset = strtoull(plus + 1, &end, 16);
	if (*end || !symbol_find(k, name, out))
		return false;
	*out = (struct kernel_range){out->section, out->start + offset, out->start + offset + 1};
	return true;
}

bool kernel_range_find(const struct kernel *k, const char *name, struct kernel_range *out)
{
	return symbol_find(k, name, out) || offset_find(k, name, out);
}

static bool is_asked(const struct kernel_row *r, const struct kernel_range *at)
{
	if (!at)
		return true;
	return r->place.kind == KPLACE_SECTION && (!at->section || at->section == r->place.section) &&
	       r->place.addr < at->end && r->place.addr + r->size > at->start;
}

static void head_print(const struct printer *p, const struct kernel_rows *rows)
{
	const struct kernel *k = p->k;
	struct json_object *name = json_name(k->file->path), *from = json_name(rows->layout_from);
	struct json_object *problem = rows->problem[0] ? json_name(rows->problem) : NULL;

	if (p->format == FORMAT_TSV) {
		printf("address\tsize\tcfa\tbp\tra\tkind\tsource%s\tfunction\n", elf_is_object(k->file) ? "\tsection" : "");
	} else if (p->format == FORMAT_JSON) {
		json_document_begin();
		printf("{\n  \"format\": \"etch-inspect-orc\",\n  \"version\": 1,\n  \"file\": ");
		json_put(stdout, name, JSON_C_TO_STRING_SPACED);
		printf(",\n  \"kind\": \"%s\",\n  \"table\": \"kernel\",\n  \"generated\": false,\n  \"layout\": \"%s\",\n"
		       "  \"layout_from\": ",
		       kernel_kind(k), kernel_orc_layout_text(rows->layout));
		json_put(stdout, from, JSON_C_TO_STRING_SPACED);
		printf(",\n  \"sorted\": %s,\n  \"malformed\": %zu,\n  \"problem\": ", rows->sorted ? "true" : "false",
		       rows->bad);
		json_put(stdout, problem, JSON_C_TO_STRING_SPACED);
		printf(",\n  \"rows\": [");
	} else {
		text_clean(stdout, k->file->path);
		printf(": the kernel's .orc_unwind, %zu rows, layout of %s (%s)", rows->count,
		       kernel_orc_layout_text(rows->layout), rows->layout_from);
		if (!elf_is_object(k->file) && !rows->sorted)
			printf(", not sorted in the file");
		if (rows->bad)
			printf(", %zu malformed", rows->bad);
		printf("\n%16s  %6s  %-15s  %-12s  %-11s  %-6s  %s\n", "address", "size", "cfa", "bp", "ra", "kind", "symbol");
	}
	json_object_put(name);
	json_object_put(from);
	json_object_put(problem);
}

int kernel_rows_show(struct kernel *k, const struct kernel_range *at, enum format format, struct error *e)
{
	struct printer p = {.k = k, .format = format};
	struct kernel_rows rows = {0};
	int err = -1;
	size_t i;

	if (kernel_orc_read(k, &rows, e))
		goto out;
	head_print(&p, &rows);
	/* The last row of a section has no size and is left out, since it only marks the end of the row before it. */
	for (i = 0; i < rows.count; i++)
		if ((rows.list[i].size || rows.list[i].problem) && is_asked(&rows.list[i], at))
			row_print(&p, &rows.list[i]);
	if (format == FORMAT_JSON)
		printf("%s]\n}\n", p.count ? "\n  " : "");
	/* The caller prints rows.problem, which says what was left out, to standard error, whatever the format. */
	err = rows.problem[0] ? error_set(e, "%s", rows.problem) : 0;
out:
	kernel_orc_free(&rows);
	return err;
}
