/* SPDX-License-Identifier: MIT */
/*
 * Prints `etch inspect code` as text, one line per instruction:
 *
 *      address  CFA     source  arrows  instruction             ; notes
 *
 * Each time that the source line changes, it is printed on a line of its own.
 */
#include "inspect/view_code.h"

#include "arch/x86/rule_text.h"
#include "elf/symbols.h"
#include "inspect/term_writer.h"
#include "report/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LANES_MOST    12u
#define ENTRIES_SHOWN 8 /* number of entries of a jump table that are listed at one of its targets */

/* Layout of the columns. */
struct margins {
	/* address, cfa: widths of these columns; insn, note: columns at which instruction and notes begin */
	unsigned address, cfa, insn, note;
	unsigned bytes;
};

static void cfa_of(const struct code_line *l, char *out, size_t size)
{
	if (l->row && l->row->rule.kind != ETCH_RULE_UNDEF)
		rule_cfa_text(&l->row->rule, out, size);
	else
		snprintf(out, size, "undef");
}

static void margins_measure(const struct code *c, const struct arrows *a, enum insn_syntax syntax, struct margins *m)
{
	unsigned longest = 0;
	uint32_t i;

	*m = (struct margins){.address = 4, .cfa = 5};
	for (i = 0; i < c->line_count; i++) {
		const struct code_line *l = &c->lines[i];
		char text[256];
		unsigned n = (unsigned)snprintf(NULL, 0, "%" PRIx64, l->addr);

		m->address = n > m->address ? n : m->address;
		cfa_of(l, text, sizeof(text));
		m->cfa = strlen(text) > m->cfa ? (unsigned)strlen(text) : m->cfa;
		code_insn_text(l, syntax, text, sizeof(text));
		longest = strlen(text) > longest ? (unsigned)strlen(text) : longest;
		m->bytes = c->options->bytes && l->len > m->bytes ? l->len : m->bytes;
	}
	m->insn = 2 + m->address + 2 + (m->bytes ? 3 * m->bytes + 1 : 0) + m->cfa + 2 + 4 + 2 + arrows_width(a);
	m->note = m->insn + (longest < 44 ? longest : 44) + 2;
}

/* Prints a note after an instruction, with "; " before it. */
static void note(struct writer *p, const struct margins *m, bool *any, const char *text)
{
	if (!*any)
		writer_column(p, m->note);
	writer_put(p, STYLE_NOTE, "; %s", text);
	*any = true;
}

/* Writes "entry 0, 3-5 of the jump at 1234". Returns the number of elements of x that the text describes. */
static size_t table_entries_text(const struct code *c, const struct incoming *x, size_t count, char *out, size_t size)
{
	size_t i = 0, n = 0, shown = 0;
	char at[32];

	n += (size_t)snprintf(out, size, "entry");
	while (i < count && x[i].kind == INCOMING_TABLE && x[i].from == x[0].from) {
		size_t last = i;

		while (last + 1 < count && x[last + 1].kind == INCOMING_TABLE && x[last + 1].from == x[0].from &&
		       x[last + 1].index == x[last].index + 1)
			last++;
		if (shown++ < ENTRIES_SHOWN && n < size) {
			n += (size_t)snprintf(out + n, size - n, "%s %" PRIu64, i ? "," : "", x[i].index);
			if (last > i && n < size)
				n += (size_t)snprintf(out + n, size - n, "-%" PRIu64, x[last].index);
		}
		i = last + 1;
	}
	snprintf(at, sizeof(at), "%" PRIx64, x[0].from - c->base);
	if (n < size)
		snprintf(out + n, size - n, "%s of the jump at %s", shown > ENTRIES_SHOWN ? ", ..." : "", at);
	return i;
}

static void incoming_print(const struct code *c, const struct code_line *l, struct writer *p, const struct margins *m,
                           bool *any)
{
	size_t count, i = 0;
	const struct incoming *x = code_incoming(c, l, &count);
	char text[512];

	while (i < count) {
		if (x[i].kind == INCOMING_TABLE) {
			i += table_entries_text(c, x + i, count - i, text, sizeof(text));
		} else if (x[i].kind == INCOMING_PAD) {
			snprintf(text, sizeof(text), "landing pad of %" PRIx64 "..%" PRIx64, x[i].from - c->base,
			         x[i].from + x[i].index - c->base);
			i++;
		} else {
			snprintf(text, sizeof(text), "fixup of %" PRIx64, x[i].from - c->base);
			i++;
		}
		note(p, m, any, text);
	}
}

/* Writes the place of a jump table: "2014" or, in an object file, ".rodata+0x14". */
static void table_place(const struct code *c, const struct detail_jump *j, char *out, size_t size)
{
	if (j->section)
		operand_name(c->operands, j->section, j->table, out, size);
	else
		snprintf(out, size, "%" PRIx64, j->table);
}

static void jump_print(const struct code *c, const struct code_line *l, struct writer *p, const struct margins *m,
                       bool *any)
{
	const struct detail_jump *j = detail_jump_at(&c->detail, c->base + l->addr);
	char text[400], at[256];

	if (!j)
		return;
	table_place(c, j, at, sizeof(at));
	if (!j->listed)
		snprintf(text, sizeof(text), "jump table at %s, %u entries, too many to list", at,
		         j->most ? j->most : j->entries);
	else if (j->followed)
		snprintf(text, sizeof(text), "jump table at %s, %u entries", at, j->most);
	else if ((j->table || j->section) && j->most)
		snprintf(text, sizeof(text), "jump table at %s, %u entries, some invalid", at, j->most);
	else if (j->table || j->section)
		snprintf(text, sizeof(text), "jump table at %s, its size is not known", at);
	else if (j->most)
		snprintf(text, sizeof(text), "jump table of %u entries", j->most);
	else
		snprintf(text, sizeof(text), "jump table");
	note(p, m, any, text);
}

static bool is_call(const struct code_line *l)
{
	return l->good && (l->in.flow == FLOW_CALL || l->in.flow == FLOW_CALL_IND);
}

static void flow_print(const struct code *c, const struct code_line *l, struct writer *p, const struct margins *m,
                       bool *any)
{
	const struct detail_pad *pad = is_call(l) ? detail_pad_of(&c->detail, c->base + l->addr) : NULL;
	char text[300], name[256];

	if (pad) {
		code_place_name(c, pad->pad, name, sizeof(name));
		snprintf(text, sizeof(text), "throws to %s", name);
		note(p, m, any, text);
	}
	if (l->known && l->known->ends)
		note(p, m, any, "does not return");
	if (!l->known && !(l->good && l->in.padding))
		note(p, m, any, "not reached");
}

/*
 * Prints the part of the analysis' state that the row does not show: where saved registers are, and a CFA that differs
 * from the row.
 */
static void state_print(const struct code_line *l, const struct code_line *before, struct writer *p,
                        const struct margins *m, bool *any)
{
	char saved[256], was[256] = "", cfa[64], own[64], text[128];

	if (l->row && l->changed && (l->row->rule.kind == ETCH_RULE_SIGNAL || l->row->rule.kind == ETCH_RULE_END))
		note(p, m, any, l->row->rule.kind == ETCH_RULE_SIGNAL ? "signal frame" : "outermost frame");
	if (!l->known)
		return;
	code_saved_text(l, saved, sizeof(saved));
	if (before && before->known)
		code_saved_text(before, was, sizeof(was));
	if (strcmp(saved, was))
		note(p, m, any, saved[0] ? saved : "all registers restored");
	cfa_of(l, cfa, sizeof(cfa));
	rule_cfa_text(&l->known->rule, own, sizeof(own));
	if (l->known->rule.kind != ETCH_RULE_UNDEF && strcmp(cfa, own) && (!before || l->changed || !before->known)) {
		snprintf(text, sizeof(text), "from the code alone: CFA %s", own);
		note(p, m, any, text);
	}
}

static void refers_print(const struct code *c, const struct code_line *l, struct writer *p, const struct margins *m,
                         bool *any)
{
	struct reference r;
	char text[400];

	if (!l->good)
		return;
	operand_memory(c->operands, c->place.section, &l->in, &r);
	if (!r.known || !r.name[0])
		return;
	if (r.text[0])
		snprintf(text, sizeof(text), "%s \"%s\"", r.name, r.text);
	else
		snprintf(text, sizeof(text), "%s", r.name);
	note(p, m, any, text);
}

static void notes_print(const struct code *c, uint32_t i, struct writer *p, const struct margins *m)
{
	const struct code_line *l = &c->lines[i];
	char text[600];
	bool any = false;

	code_site_text(c, l, text, sizeof(text));
	if (strcmp(text, "-") && strcmp(text, "fixup"))
		note(p, m, &any, text);
	refers_print(c, l, p, m, &any);
	jump_print(c, l, p, m, &any);
	incoming_print(c, l, p, m, &any);
	flow_print(c, l, p, m, &any);
	state_print(l, i ? &c->lines[i - 1] : NULL, p, m, &any);
}

static void insn_print(const struct code *c, const struct code_line *l, enum insn_syntax syntax, struct writer *p)
{
	struct reference r;
	char text[256];

	code_insn_text(l, syntax, text, sizeof(text));
	writer_put(p, c->asked == l->addr && c->asked != c->place.start ? STYLE_STRONG : STYLE_PLAIN, "%s", text);
	if (!l->good)
		return;
	operand_target(c->operands, c->place.section, &l->in, &r);
	if (r.known && r.name[0])
		writer_put(p, STYLE_NAME, " <%s>", r.name);
}

static void source_print(const struct code *c, const struct code_line *l, struct writer *p, char *last, size_t size)
{
	char source[256];

	lines_find(c->sources, c->place.section, l->addr, source, sizeof(source));
	if (!strcmp(source, "-") || !strcmp(source, last))
		return;
	snprintf(last, size, "%s", source);
	writer_put(p, STYLE_NAME, "%s:", source);
	writer_newline(p);
}

static void line_print(const struct code *c, uint32_t i, const struct arrows *a, const struct margins *m,
                       struct writer *p)
{
	enum insn_syntax syntax = c->options->intel ? SYNTAX_INTEL : SYNTAX_ATT;
	const struct code_line *l = &c->lines[i];
	char cfa[64], gutter[8 * (LANES_MOST + 2)];
	unsigned k;

	writer_put(p, c->asked == l->addr && c->asked != c->place.start ? STYLE_STRONG : STYLE_DIM, "  %*" PRIx64 "  ",
	           (int)m->address, l->addr);
	for (k = 0; k < m->bytes; k++)
		if (k < l->len)
			writer_put(p, STYLE_DIM, "%02x ", l->bytes[k]);
		else
			writer_put(p, STYLE_PLAIN, "   ");
	if (m->bytes)
		writer_put(p, STYLE_PLAIN, " ");
	cfa_of(l, cfa, sizeof(cfa));
	writer_put(p, l->changed ? STYLE_PLAIN : STYLE_DIM, "%-*s  %-4s  ", (int)m->cfa, cfa,
	           !l->row || (!c->generated && !c->table.sources) ? "-" : row_source_text(l->row->source));
	arrows_line(a, i, p->unicode, gutter, sizeof(gutter));
	writer_put(p, STYLE_LINE, "%s", gutter);
	insn_print(c, l, syntax, p);
	notes_print(c, i, p, m);
	writer_newline(p);
}

#define NAMESAKES_MOST 8 /* number of functions with the same name that are listed */

/*
 * Lists the other functions with the same name. There may be some, since several source files may have local functions
 * with one name, and a symbol may have several versions.
 */
static void namesakes_print(const struct code *c)
{
	const struct elf_file *f = &c->file;
	const struct elf_symbol *list = f->symbol_count ? f->symbols : f->dynsyms;
	uint32_t n = f->symbol_count ? f->symbol_count : f->dynsym_count, i, others = 0;

	for (i = 1; i < n; i++) {
		if (!symbol_is_function(f, &list[i]) || strcmp(list[i].name, c->options->at) ||
		    (list[i].section == c->place.section && list[i].value == c->place.start))
			continue;
		if (others++ < NAMESAKES_MOST) {
			printf("%s", others == 1 ? "; others of this name: " : ", ");
			if (elf_is_object(f)) {
				text_clean(stdout, f->sections[list[i].section].name);
				printf("+0x");
			}
			printf("%" PRIx64, list[i].value);
		}
	}
	if (others > NAMESAKES_MOST)
		printf(" and %u more", others - NAMESAKES_MOST);
}

static const char *rows_origin(const struct code *c)
{
	if (!c->generated)
		return "rows from its table";
	return c->options->no_cfi ? "rows generated, .eh_frame ignored" : "no table in the file; rows generated";
}

static void head_print(const struct code *c)
{
	char where[256];

	elf_describe(&c->file, c->place.section, c->place.start, where, sizeof(where));
	text_clean(stdout, c->path);
	printf(": ");
	text_clean(stdout, where);
	printf(", %s; %" PRIx64 "..%" PRIx64 ", %" PRIu64 " bytes of ", rows_origin(c), c->place.start, c->place.end,
	       c->place.end - c->place.start);
	text_clean(stdout, c->file.sections[c->place.section].name);
	namesakes_print(c);
	putchar('\n');
}

void code_text(const struct code *c)
{
	struct margins m;
	struct arrows *a;
	struct writer p;
	char last[256] = "";
	uint32_t i;

	writer_init(&p);
	a = arrows_make(c->jumps, c->jump_count, c->line_count, p.width && p.width < 100 ? 6 : LANES_MOST);
	head_print(c);
	margins_measure(c, a, c->options->intel ? SYNTAX_INTEL : SYNTAX_ATT, &m);
	for (i = 0; i < c->line_count; i++) {
		source_print(c, &c->lines[i], &p, last, sizeof(last));
		line_print(c, i, a, &m, &p);
	}
	arrows_free(a);
}
