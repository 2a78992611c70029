/* SPDX-License-Identifier: MIT */
/*
 * Implements ETCH-T003 and ETCH-T004 for unwind tables: tables that are malformed, and rows that do not match the code.
 */
#include "arch/x86/rule_text.h"
#include "check/check.h"
#include "analysis/facts/cfi_file.h"
#include "shared/search.h"
#include "elf/symbols.h"
#include "table/linked_unwind.h"
#include "table/unwind_tables.h"

#include <etch/orc_lookup.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK ((uint64_t)1 << ETCH_BLOCK_SHIFT)

/*
 * A file gets at most this many findings about rows that differ, one per function. One more finding counts the
 * remaining functions.
 */
#define DIFFERENCES_SHOWN 20

/* ---- the arrays ---------------------------------------------------------------- */

/* The arrays of the classic format: addresses, rules, and an index by block (`lookup`, null if there is none). */
struct arrays {
	uint32_t section; /* the section for findings about these addresses */
	const uint8_t *ip, *orc, *lookup;
	uint64_t ip_addr, rows;
	/* with lookup: text is the first address that the index covers, and the index has blocks + 1 entries */
	uint64_t text, blocks;
};

static uint64_t row_addr(const struct arrays *a, uint64_t i)
{
	int32_t d;

	memcpy(&d, a->ip + 4 * i, 4);
	return a->ip_addr + 4 * i + (uint64_t)(int64_t)d;
}

/*
 * Adds a finding about the first row that is out of order, since readers use binary search. Returns false after a
 * finding, like the next two functions.
 */
static bool order_check(struct subject *s, const struct arrays *a)
{
	uint64_t i;

	for (i = 1; i < a->rows; i++) {
		uint64_t before = row_addr(a, i - 1), here = row_addr(a, i);

		if (before <= here)
			continue;
		finding_add(&s->found, "ETCH-T004", a->section, a->ip_addr + 4 * i,
		            "row %" PRIu64 " of %s is for %#" PRIx64 ", the one before it for %#" PRIx64 ": not sorted", i,
		            s->file->sections[a->section].name, here, before);
		return false;
	}
	return true;
}

/* Checks that lookup[i] is the index of the last row at or before the start of block i. */
static bool lookup_check(struct subject *s, const struct arrays *a)
{
	uint64_t b, k = 0;
	uint32_t has;

	for (b = 0; a->lookup && a->rows && b <= a->blocks; b++) {
		while (k + 1 < a->rows && row_addr(a, k + 1) <= a->text + b * BLOCK)
			k++;
		memcpy(&has, a->lookup + 4 * b, 4);
		if (has == k)
			continue;
		finding_add(&s->found, "ETCH-T004", 0, 0,
		            "entry %" PRIu64 " of " ETCH_SEC_ORC_LOOKUP " is %u, not %" PRIu64 ": lookups of %#" PRIx64
		            " search the wrong rows",
		            b, has, k, a->text + b * BLOCK);
		return false;
	}
	return true;
}

static bool rules_check(struct subject *s, const struct arrays *a)
{
	struct etch_rule rule;
	struct etch_orc x;
	uint64_t i;

	for (i = 0; a->orc && i < a->rows; i++) {
		memcpy(&x, a->orc + sizeof(x) * i, sizeof(x));
		if (etch_orc_unpack(&x, &rule))
			continue;
		finding_add(&s->found, "ETCH-T004", a->section, a->ip_addr + 4 * i,
		            "row %" PRIu64 ", for %#" PRIx64 ", has an invalid rule", i, row_addr(a, i));
		return false;
	}
	return true;
}

/* ---- arrays of the object step --------------------------------------------------- */

/* True for the kernel and its modules. Their arrays have the same names, but encode rules differently. */
static bool is_kernels(const struct elf_file *f)
{
	return elf_section_find(f, ".orc_header", 1) || elf_section_find(f, ".modinfo", 1) ||
	       elf_section_find(f, "__ksymtab", 1);
}

static uint32_t array_next(const struct elf_file *f, const struct segment_found *at, const char *name, uint32_t from)
{
	uint32_t i = from;

	while ((i = elf_section_find(f, name, i + 1))) {
		const struct elf_section *x = &f->sections[i];

		if (!x->data || (at->size && x->sh.sh_addr >= at->addr && x->sh.sh_addr - at->addr < at->size))
			continue;
		return i;
	}
	return 0;
}

static void pair_check(struct subject *s, bool kernels, uint32_t ip, uint32_t orc)
{
	const struct elf_section *x = &s->file->sections[ip], *y = &s->file->sections[orc];
	struct arrays a = {.section = ip,
	                   .ip = x->data,
	                   .orc = kernels ? NULL : y->data,
	                   .ip_addr = x->sh.sh_addr,
	                   .rows = x->sh.sh_size / 4};

	if (x->sh.sh_size % 4 || y->sh.sh_size != a.rows * sizeof(struct etch_orc))
		finding_add(&s->found, "ETCH-T004", ip, x->sh.sh_addr,
		            "%s and %s have %" PRIu64 " and %" PRIu64 " bytes: not 4 and 6 for the same number of rows",
		            x->name, y->name, x->sh.sh_size, y->sh.sh_size);
	/* In an object file the addresses are relocations, so their order is not yet known. */
	else if (rules_check(s, &a) && !elf_is_object(s->file))
		order_check(s, &a);
}

static void classic_check(struct subject *s, const struct segment_found *at)
{
	bool kernels = is_kernels(s->file);
	uint32_t ip = 0, orc = 0;

	for (;;) {
		ip = array_next(s->file, at, ETCH_SEC_ORC_IP, ip);
		orc = array_next(s->file, at, ETCH_SEC_ORC, orc);
		if (!ip || !orc)
			break;
		pair_check(s, kernels, ip, orc);
	}
	if (ip || orc)
		finding_add(&s->found, "ETCH-T004", ip + orc, s->file->sections[ip + orc].sh.sh_addr,
		            "section %s without section %s", s->file->sections[ip + orc].name,
		            ip ? ETCH_SEC_ORC : ETCH_SEC_ORC_IP);
}

/* ---- the table of a linked file --------------------------------------------------- */

/*
 * Adds the finding about a table in the orc encoding that was refused. If the reason concerns a row, the finding is at
 * that row.
 */
static void orc_explain(struct subject *s, const struct segment_found *at, const char *why)
{
	const struct elf_file *f = s->file;
	struct arrays a = {0};
	struct etch_unwind u = {0};
	uint32_t i;

	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *x = &f->sections[i];

		if (!x->data || x->sh.sh_addr < at->addr || x->sh.sh_addr - at->addr >= at->size)
			continue;
		if (!strcmp(x->name, ETCH_SEC_UNWIND) && x->sh.sh_size >= sizeof(u))
			memcpy(&u, x->data, sizeof(u));
		if (!strcmp(x->name, ETCH_SEC_ORC_IP)) {
			a.section = i;
			a.ip = x->data;
			a.ip_addr = x->sh.sh_addr;
			a.rows = x->sh.sh_size / 4;
		}
		if (!strcmp(x->name, ETCH_SEC_ORC) && a.rows == x->sh.sh_size / sizeof(struct etch_orc))
			a.orc = x->data;
		if (!strcmp(x->name, ETCH_SEC_ORC_LOOKUP) && x->sh.sh_size >= 4) {
			a.lookup = x->data;
			a.blocks = x->sh.sh_size / 4 - 1;
			a.text = u.text;
		}
	}
	if (u.encoding == ETCH_ENCODING_ORC && a.ip && a.rows == u.rows && a.orc &&
	    (!rules_check(s, &a) || !order_check(s, &a) ||
	     (a.blocks == (u.text_size + BLOCK - 1) / BLOCK && !lookup_check(s, &a))))
		return;
	finding_add(&s->found, "ETCH-T004", 0, 0, "%s", why);
}

/* ---- rows ------------------------------------------------------------------------- */

struct difference {
	uint64_t start, end;
	const struct row *table, *code;
	const struct elf_symbol *function; /* null: the function is not known */
	uint64_t bytes;                    /* number of bytes of the function at which the rules differ */
};

static void rule_text(const struct etch_rule *r, char *out, size_t size)
{
	char cfa[64], bp[64], ra[64];

	if (r->kind == ETCH_RULE_UNDEF) {
		snprintf(out, size, "undefined");
		return;
	}
	rule_cfa_text(r, cfa, sizeof(cfa));
	rule_bp_text(r, bp, sizeof(bp));
	rule_ra_text(r, ra, sizeof(ra));
	snprintf(out, size, "CFA %s, rbp %s, return address %s (%s)", cfa, bp, ra, rule_kind_text(r));
}

static void difference_add(struct subject *s, const struct difference *d)
{
	char table[240], code[240];
	struct finding *x;

	rule_text(&d->table->rule, table, sizeof(table));
	rule_text(&d->code->rule, code, sizeof(code));
	x = finding_add(&s->found, "ETCH-T003", elf_section_at(s->file, d->start), d->start,
	                "the unwind table and the code disagree for %" PRIu64 " bytes%s", d->bytes,
	                d->function ? " of this function" : "");
	finding_fact(x, "the table", "%s", table);
	finding_fact(x, "the code", "%s", code);
}

/* Rounds rules to those that the orc encoding can express; all others become undefined. */
static void rows_repack(struct row_list *rows)
{
	struct etch_orc x;
	size_t i;

	for (i = 0; i < rows->count; i++)
		if (!unwind_orc_pack(&rows->rows[i].rule, rows->rows[i].source, &x) ||
		    !etch_orc_unpack(&x, &rows->rows[i].rule))
			memset(&rows->rows[i].rule, 0, sizeof(rows->rows[i].rule));
}

struct compare {
	struct subject *s;
	struct symbol_index symbols;
	const struct row_list *table, *code;
	struct difference last; /* the last difference, which has no finding yet; bytes 0: there is none */
	size_t places, shown;
	bool count_only;
	bool cfi; /* `code` was made with the help of .eh_frame */
	struct cfi_file described;
};

static void last_report(struct compare *c)
{
	if (!c->last.bytes)
		return;
	c->places++;
	if (!c->count_only && c->shown < DIFFERENCES_SHOWN) {
		c->shown++;
		difference_add(c->s, &c->last);
	}
	c->last.bytes = 0;
}

/* True if .eh_frame describes any byte of [start, end). */
static bool is_described(const struct cfi_file *cfi, uint64_t start, uint64_t end)
{
	size_t i = SEARCH(cfi->count, k, cfi->fdes[k].end <= start);

	return i < cfi->count && cfi->fdes[i].start < end;
}

/*
 * True if the difference may be due to strip. The table was made while the file had symbols, by which the analysis knew
 * more about code that .eh_frame does not describe.
 */
static bool names_missed(const struct compare *c, uint64_t start, uint64_t end, const struct row *code)
{
	if (c->s->file->symtab)
		return false;
	if (!c->cfi)
		return code->rule.kind == ETCH_RULE_UNDEF;
	return (code->rule.kind == ETCH_RULE_UNDEF || code->source == ETCH_SOURCE_CODE) &&
	       !is_described(&c->described, start, end);
}

/* Compares the rules of the table and of the code for [start, end). Each of them has a single rule there. */
static void stretch_check(struct compare *c, uint64_t start, uint64_t end, const struct row *table,
                          const struct row *code)
{
	const struct elf_symbol *y;

	if (start >= end || etch_rule_equal(&table->rule, &code->rule) || names_missed(c, start, end, code))
		return;
	y = symbol_index_find(&c->symbols, elf_section_at(c->s->file, start), start);
	if (c->last.bytes && y && y == c->last.function) {
		c->last.bytes += end - start;
		return;
	}
	last_report(c);
	c->last = (struct difference){start, end, table, code, y, end - start};
}

/* Compares the rows of the table with those of the code, and adds findings by function. */
static void rows_compare(struct compare *c)
{
	static const struct row none;
	const struct row *t = &none, *g = &none;
	uint64_t at = 0, next;
	size_t i = 0, k = 0;

	c->places = c->shown = 0;
	c->last.bytes = 0;
	while (i < c->table->count || k < c->code->count) {
		next = i < c->table->count ? c->table->rows[i].addr : UINT64_MAX;
		if (k < c->code->count && c->code->rows[k].addr < next)
			next = c->code->rows[k].addr;
		stretch_check(c, at, next, t, g);
		at = next;
		if (i < c->table->count && c->table->rows[i].addr == at)
			t = &c->table->rows[i++];
		if (k < c->code->count && c->code->rows[k].addr == at)
			g = &c->code->rows[k++];
	}
	last_report(c);
}

/* Makes the rows of the code, rounded to those that the encoding of the table can express. */
static void code_rows(const struct frames *fr, const struct linked_unwind *u, struct row_list *out)
{
	struct row_list near;
	struct far_code far;

	unwind_rows_canonical(&fr->rows, &fr->space, out);
	rows_near(out, &near, &far);
	memmove(out->rows, near.rows, near.count * sizeof(*near.rows));
	out->count = near.count;
	if (u->header.encoding == ETCH_ENCODING_ORC)
		rows_repack(out);
}

/*
 * The table may have been made from the code alone (--no-cfi) although this check uses .eh_frame, or the reverse.
 * Compares it with the rows that are made in the other way. Sets *differs if the table does not match these either.
 * Returns 0, or -1 and a message.
 */
static int other_way_differs(struct compare *c, const struct linked_unwind *u, bool *differs, struct error *e)
{
	const struct frames_options how = {.no_cfi = !c->s->options->no_cfi, .jobs = c->s->options->jobs};
	const struct row_list *code = c->code;
	struct row_list rows = {0};
	struct frames frames;
	int err;

	err = frames_find(c->s->file, &how, &frames, e);
	if (!err) {
		code_rows(&frames, u, &rows);
		c->code = &rows;
		c->cfi = !how.no_cfi;
		c->count_only = true;
		rows_compare(c);
		*differs = c->places != 0;
	}
	c->code = code;
	c->cfi = how.no_cfi;
	row_list_free(&rows);
	frames_free(&frames);
	return err;
}

static void rows_report(struct compare *c)
{
	c->count_only = false;
	rows_compare(c);
	if (c->places > c->shown)
		finding_add(&c->s->found, "ETCH-T003", 0, 0, "the unwind table and the code disagree at %zu more places",
		            c->places - c->shown);
}

static int rows_check(struct subject *s, const struct linked_unwind *u, struct error *e)
{
	struct row_list table = {0}, code = {0};
	struct compare c = {.s = s, .table = &table, .code = &code, .count_only = true, .cfi = !s->options->no_cfi};
	bool sources, differs = true;
	struct error why;
	int err = 0;

	if (linked_unwind_rows(u, &table, &sources, &why)) {
		row_list_free(&table);
		finding_add(&s->found, "ETCH-T004", 0, 0, "%s", why.text);
		return 0;
	}
	symbol_index_build(s->file, symbol_is_function, &c.symbols);
	code_rows(&s->frames, u, &code);
	cfi_file_open(s->file, &s->frames.space, &c.described);
	rows_compare(&c);
	if (c.places)
		err = other_way_differs(&c, u, &differs, e);
	if (!err && c.places && differs)
		rows_report(&c);
	symbol_index_free(&c.symbols);
	cfi_file_close(&c.described);
	row_list_free(&table);
	row_list_free(&code);
	return err;
}

/* True if the table has the build-id of the file, or the file has no build-id; otherwise adds a finding. */
static bool build_check(struct subject *s, const struct linked_unwind *u)
{
	uint8_t want[sizeof(u->header.build_id)] = {0};
	const uint8_t *id;
	size_t n = elf_build_id(s->file, &id);

	memcpy(want, id, n < sizeof(want) ? n : sizeof(want));
	if (!n || !memcmp(want, u->header.build_id, sizeof(want)))
		return true;
	finding_add(&s->found, "ETCH-T003", 0, 0,
	            "the unwind table is from another build: its build-id differs from that of the file");
	return false;
}

int check_unwind(struct subject *s, struct error *e)
{
	struct segment_found at = {0};
	struct linked_unwind u = {0};
	struct error why;
	int r = 0;

	if (!elf_is_object(s->file))
		r = segment_find(s->file->bytes, s->file->size, &at, &why);
	if (r >= 0)
		classic_check(s, &at);
	if (r > 0)
		r = linked_unwind_read(s->file, &u, &why);
	if (r < 0) {
		linked_unwind_free(&u);
		orc_explain(s, &at, why.text);
		return 0;
	}
	r = r > 0 && build_check(s, &u) ? rows_check(s, &u, e) : 0;
	linked_unwind_free(&u);
	return r;
}
