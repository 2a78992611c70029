/* SPDX-License-Identifier: MIT */
/*
 * Implements `etch inspect orc`, `sframe` and `cfi`: shows the unwind rows of a file, whichever table they come from.
 * Large files have millions of rows, so these are printed one by one, without a listing.
 */
#include "inspect/inspect.h"

#include "elf/symbols.h"
#include "support/memory.h"
#include "support/plain.h"
#include "support/strings.h"
#include "report/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row as it is printed, for addresses in one section (object files) or anywhere in the text (linked files). */
struct shown {
	uint32_t section; /* 0: the row is between the sections of a linked file */
	uint64_t addr, size;
	const struct row *row;
};

struct printer {
	const struct elf_file *file;
	const struct unwind_view *unwind;
	struct symbol_index names;
	enum format format;
	enum unwind_from from;
	size_t count;
	char last[256]; /* name of the function of the previous row */
};

static const char *section_name(const struct printer *p, const struct shown *s)
{
	return s->section ? p->file->sections[s->section].name : "-";
}

/* True for a table in a standard format (.sframe or .eh_frame). Its rows do not state their sources. */
static bool is_standard(const struct printer *p) { return p->from == UNWIND_SFRAME || p->from == UNWIND_CFI; }

/* Returns the source of a row as text. Tables that other programs wrote do not state it. */
static const char *source_text(const struct printer *p, const struct row *row)
{
	return is_standard(p) ? "-" : row_source_text(row->source);
}

/* Returns the index of a row, by which the lists with further facts about rows are indexed, too. */
static size_t row_index(const struct printer *p, const struct row *row) { return (size_t)(row - p->unwind->rows.rows); }

/*
 * Writes the places of callee-saved registers, which only .eh_frame and register tables state. Returns the reason why
 * the row says less than .eh_frame, or null.
 */
static const char *registers_text(const struct printer *p, const struct row *row, char *out, size_t size)
{
	size_t i = row_index(p, row);

	saves_text(&p->unwind->saves[i], out, size);
	return p->unwind->why ? p->unwind->why[i] : NULL;
}

static void put_name(const char *key, const char *name)
{
	struct json_object *o = name[0] ? json_name(name) : NULL;

	printf(", \"%s\": ", key);
	json_put(stdout, o, JSON_C_TO_STRING_SPACED);
	json_object_put(o);
}

/* Prints a row as JSON. Only names can contain characters that need escapes. */
static void print_json(struct printer *p, const struct shown *s, const char *cfa, const char *bp, const char *ra)
{
	char name[256];

	printf("%s\n    {\"address\": \"%" PRIx64 "\", \"size\": %" PRIu64 ", \"cfa\": \"%s\", \"bp\": \"%s\", "
	       "\"ra\": \"%s\", \"kind\": \"%s\", \"source\": \"%s\"",
	       p->count ? "," : "", s->addr, s->size, cfa, bp, ra, rule_kind_text(&s->row->rule), source_text(p, s->row));
	if (p->unwind->saves) {
		const char *why = registers_text(p, s->row, name, sizeof(name));

		printf(", \"registers\": \"%s\", \"why\": %s%s%s", name, why ? "\"" : "", why ? why : "null", why ? "\"" : "");
	}
	if (elf_is_object(p->file))
		put_name("section", section_name(p, s));
	symbol_index_name(&p->names, s->section, s->addr, name, sizeof(name));
	put_name("function", name);
	putchar('}');
}

static void print_tsv(const struct printer *p, const struct shown *s, const char *cfa, const char *bp, const char *ra)
{
	char *section, registers[SAVES_TEXT], name[256];

	printf("%" PRIx64 "\t%" PRIx64 "\t%s\t%s\t%s\t%s\t%s", s->addr, s->size, cfa, bp, ra, rule_kind_text(&s->row->rule),
	       source_text(p, s->row));
	if (p->unwind->saves) {
		registers_text(p, s->row, registers, sizeof(registers));
		printf("\t%s", registers);
	}
	section = elf_is_object(p->file) ? mem_string(section_name(p, s)) : NULL;
	if (section) {
		plain(section);
		printf("\t%s", section);
	}
	symbol_index_name(&p->names, s->section, s->addr, name, sizeof(name));
	printf("\t%s\n", name[0] ? name : "-");
	free(section);
}

/* Prints a row as text. The name of a function is printed only on its first row. */
static void print_text(struct printer *p, const struct shown *s, const char *cfa, const char *bp, const char *ra)
{
	char name[256], registers[SAVES_TEXT], *plus;

	symbol_index_name(&p->names, s->section, s->addr, name, sizeof(name));
	plus = strchr(name, '+');
	printf("%10" PRIx64 "  %6" PRIx64 "  %-15s  %-12s  %-10s  %-6s  %-4s", s->addr, s->size, cfa, bp, ra,
	       rule_kind_text(&s->row->rule), p->unwind->sources ? row_source_text(s->row->source) : "-");
	if (p->unwind->saves) {
		const char *why = registers_text(p, s->row, registers, sizeof(registers));

		printf("  %-32s%s%s%s", registers, why ? "  (" : "", why ? why : "", why ? ")" : "");
	}
	if (!plus && name[0])
		printf("  %s", name);
	else if (plus && ((size_t)(plus - name) != strlen(p->last) || strncmp(p->last, name, (size_t)(plus - name))))
		printf("  %s", name);
	if (plus)
		*plus = 0;
	memcpy(p->last, name, sizeof(name));
	putchar('\n');
}

static void row_print(struct printer *p, const struct shown *s)
{
	char cfa[64], bp[64], ra[64];

	if (s->row->rule.kind == ETCH_RULE_UNDEF) {
		strcpy(cfa, "undef");
		strcpy(bp, "undef");
		strcpy(ra, "undef");
	} else {
		rule_cfa_text(&s->row->rule, cfa, sizeof(cfa));
		rule_bp_text(&s->row->rule, bp, sizeof(bp));
		rule_ra_text(&s->row->rule, ra, sizeof(ra));
	}
	if (p->format == FORMAT_TSV)
		print_tsv(p, s, cfa, bp, ra);
	else if (p->format == FORMAT_JSON)
		print_json(p, s, cfa, bp, ra);
	else
		print_text(p, s, cfa, bp, ra);
	p->count++;
}

static bool is_asked(const struct shown *s, const struct place *at)
{
	return !at || ((!at->section || !s->section || s->section == at->section) && s->addr < at->end &&
	               s->addr + s->size > at->start);
}

/*
 * Prints a row. In an object file, prints one part of the row for each section: the gaps between sections exist only in
 * the code space (analysis/facts/space.h).
 */
static void row_parts(struct printer *p, const struct row *row, uint64_t end, size_t *section, const struct place *at)
{
	const struct code_space *space = &p->unwind->space;
	struct shown s = {.row = row};

	if (!elf_is_object(p->file)) {
		const struct code_section *c = space_at(space, row->addr);

		s.section = c ? c->section : 0;
		s.addr = row->addr;
		s.size = end - row->addr;
		if (s.size && is_asked(&s, at))
			row_print(p, &s);
		return;
	}
	for (; *section < space->count && space->list[*section].addr < end; (*section)++) {
		const struct code_section *c = &space->list[*section];
		uint64_t from = row->addr > c->addr ? row->addr : c->addr;
		uint64_t to = end < c->addr + c->size ? end : c->addr + c->size;

		s.section = c->section;
		s.addr = from - c->addr;
		s.size = from < to ? to - from : 0;
		if (s.size && is_asked(&s, at))
			row_print(p, &s);
		if (end < c->addr + c->size)
			break; /* the section continues in the next row */
	}
}

static void rows_print(struct printer *p, const struct place *at)
{
	const struct row_list *rows = &p->unwind->rows;
	size_t i, section = 0;

	for (i = 0; i + 1 < rows->count; i++)
		row_parts(p, &rows->rows[i], rows->rows[i + 1].addr, &section, at);
}

static void head_print(const struct printer *p, const char *path)
{
	const struct unwind_view *u = p->unwind;
	bool object = elf_is_object(p->file);

	if (p->format == FORMAT_TSV) {
		printf("address\tsize\tcfa\tbp\tra\tkind\tsource%s%s\tfunction\n", u->saves ? "\tregisters" : "",
		       object ? "\tsection" : "");
	} else if (p->format == FORMAT_JSON) {
		struct json_object *name = json_name(path);

		json_document_begin();
		printf("{\n  \"format\": \"etch-inspect-%s\",\n  \"version\": 1,\n  \"file\": ",
		       is_standard(p) ? u->table : "orc");
		json_put(stdout, name, JSON_C_TO_STRING_SPACED);
		printf(",\n  \"kind\": \"%s\",\n  \"table\": %s%s%s,\n  \"generated\": %s,\n  \"sources\": %s,\n  \"rows\": [",
		       file_kind(p->file), u->table ? "\"" : "", u->table ? u->table : "null", u->table ? "\"" : "",
		       u->generated ? "true" : "false", u->sources ? "true" : "false");
		json_object_put(name);
	} else {
		text_clean(stdout, path);
		printf(": ");
		if (u->generated)
			printf("%s\n", u->table ? "generated" : "no table in the file; generated");
		else if (p->from == UNWIND_SFRAME)
			printf("sframe table, %zu FRE%s in %zu FDE%s, shown as %zu row%s\n", u->fres, plural(u->fres), u->fdes,
			       plural(u->fdes), u->row_count, plural(u->row_count));
		else
			printf("%s table, %zu row%s%s\n", u->table, u->row_count, plural(u->row_count),
			       u->sources || is_standard(p) ? "" : " (" ETCH_SEC_SOURCE " was stripped)");
		printf("%10s  %6s  %-15s  %-12s  %-10s  %-6s  %-6s  %s%s\n", "address", "size", "cfa", "bp", "ra", "kind",
		       "source", u->saves ? "registers                         " : "", "function");
	}
}

/* Prints a message about entries that etch could not read, so that nobody takes the list for complete. */
static void unread_report(const char *path, size_t unread)
{
	if (!unread)
		return;
	fflush(stdout);
	text_remark(path, "%zu entr%s of .eh_frame %s not shown: etch cannot read %s, or the CIE", unread,
	            unread == 1 ? "y" : "ies", unread == 1 ? "is" : "are", unread == 1 ? "it" : "them");
}

int show_orc(const char *path, const char *at, enum unwind_from from, enum format format, struct error *e)
{
	struct elf_file file = {0};
	struct unwind_view unwind = {0};
	struct printer p = {.file = &file, .unwind = &unwind, .format = format, .from = from};
	struct place place;
	int err = -1;

	if (inspect_open(&file, path, e) || (at && place_find(&file, at, &place, e)) ||
	    unwind_view_load(&file, from, &unwind, e) || unwind_view_registers(&file, &unwind, e))
		goto out;
	symbol_index_build(&file, symbol_is_function, &p.names);
	head_print(&p, path);
	rows_print(&p, at ? &place : NULL);
	if (format == FORMAT_JSON)
		printf("%s]\n}\n", p.count ? "\n  " : "");
	unread_report(path, unwind.unread);
	err = 0;
out:
	symbol_index_free(&p.names);
	unwind_view_free(&unwind);
	elf_close(&file);
	return err;
}
