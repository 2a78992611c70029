/* SPDX-License-Identifier: MIT */
/* Prints findings as text, with colours on request. */
#include "report/text.h"
#include "elf/file.h"
#include "report/listing.h"
#include "support/demangle.h"
#include "support/document.h"
#include "support/memory.h"
#include "support/plain.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define NEAR       64  /* greatest distance in bytes between findings that are printed as one block */
#define ALSO_SHOWN 5   /* number of further places or files that are listed */
#define WIDTH      100 /* number of columns of wrapped text */

#define BOLD  "\033[1m"
#define DIM   "\033[2m"
#define PLAIN "\033[0m"

static const char *const severity_color[] = {"\033[36m", "\033[35m", "\033[31m"};

void text_init(struct text_printer *t, FILE *out, bool color, enum severity level)
{
	*t = (struct text_printer){.out = out, .color = color, .level = level};
	t->remedy_printed = mem_zero(catalogue_count, sizeof(*t->remedy_printed));
}

void text_free(struct text_printer *t) { free(t->remedy_printed); }

/* ---- text ---------------------------------------------------------------------------- */

void text_clean(FILE *out, const char *text)
{
	char *demangled = demangled_text(text);
	const unsigned char *p = (const unsigned char *)(demangled ? demangled : text);

	while (*p) {
		size_t n = plain_shown(p);

		fwrite(p, 1, n, out);
		if (!n)
			fprintf(out, "\\x%02x", *p);
		p += n ? n : 1;
	}
	free(demangled);
}

void text_clean_cut(FILE *out, const char *text, size_t most)
{
	char *cut;

	if (utf8_columns(text, strlen(text)) <= most) {
		text_clean(out, text);
		return;
	}
	cut = mem_format("%.*s...", (int)utf8_fitting(text, most - 3), text);
	text_clean(out, cut);
	free(cut);
}

void text_clean_name(FILE *out, const char *path, const char *member)
{
	text_clean(out, path);
	if (member) {
		fputc('(', out);
		text_clean(out, member);
		fputc(')', out);
	}
}

void text_bytes(FILE *out, uint64_t bytes, int columns)
{
	static const char *const units[] = {"B ", "KB", "MB", "GB", "TB"};
	double n = (double)bytes;
	int i = 0;

	for (; n >= 999.95 && i < 4; i++)
		n /= 1000;
	/* In a right-aligned column, all units have two letters. */
	fprintf(out, "%*.*f %.*s", columns, i ? 1 : 0, n, i || columns ? 2 : 1, units[i]);
}

void text_line(FILE *out, const char *text)
{
	char *line;
	size_t size;
	FILE *f = mem_stream(&line, &size);

	text_clean(f, text);
	fputc('\n', f);
	mem_stream_close(f, &line);
	fputs(line, out);
	free(line);
}

const char *file_kind(const struct elf_file *f)
{
	if (elf_is_object(f))
		return "object";
	if (f->eh.e_type == ET_EXEC)
		return "program";
	return elf_is_pie(f) ? "program (PIE)" : "shared object";
}

/* Writes the whole line at once, since other processes write to the same stream. */
static void line_put(const char *what, const char *format, va_list ap)
{
	char *text = mem_formatv(format, ap), *line;
	size_t size;
	FILE *f = mem_stream(&line, &size);

	fputs("etch: ", f);
	text_clean(f, what ? what : "");
	fputs(what ? ": " : "", f);
	text_clean(f, text);
	fputc('\n', f);
	mem_stream_close(f, &line);
	fputs(line, stderr);
	free(line);
	free(text);
}

void text_error(const char *what, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	line_put(what, format, ap);
	va_end(ap);
}

static bool quiet;

void text_quiet_set(void) { quiet = true; }

bool text_is_quiet(void) { return quiet; }

void text_remark(const char *what, const char *format, ...)
{
	va_list ap;

	if (quiet)
		return;
	va_start(ap, format);
	line_put(what, format, ap);
	va_end(ap);
}

/* Prints sentences, wrapped at spaces and indented by the width of the label. */
static void print_wrapped(FILE *out, const char *label, const char *text)
{
	size_t indent = strlen(label), at = indent;

	fputs(label, out);
	while (*text) {
		size_t n = strcspn(text, " ");

		if (at > indent && at + 1 + n > WIDTH) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
		}
		if (at > indent)
			fputc(' ', out);
		fwrite(text, 1, n, out);
		at += n + (at > indent);
		text += n;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

static const char *sgr(const struct text_printer *t, const char *how) { return t->color ? how : ""; }

/* Prints a place, as "printf+0x12 (stdio.c:34)". */
static void print_place(const struct text_printer *t, const struct report_place *p)
{
	char where[256];

	report_place_text(p, where, sizeof(where));
	text_clean(t->out, where);
	if (!p->source)
		return;
	fputs(" (", t->out);
	text_clean(t->out, strrchr(p->source, '/') ? strrchr(p->source, '/') + 1 : p->source);
	if (p->line)
		fprintf(t->out, ":%u", p->line);
	fputc(')', t->out);
}

/* ---- findings ------------------------------------------------------------------------ */

static bool is_shown(const struct text_printer *t, const struct report_finding *f)
{
	return finding_counts(f) && finding_reaches(f, t->level);
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

/* True if two findings are equal except for their places. */
static bool same_finding(const struct report_finding *a, const struct report_finding *b)
{
	size_t i;

	if (a->entry != b->entry || strcmp(a->text, b->text) || a->fact_count != b->fact_count ||
	    !same_text(a->place.section, b->place.section))
		return false;
	for (i = 0; i < a->fact_count; i++)
		if (strcmp(a->facts[i].label, b->facts[i].label) || strcmp(a->facts[i].text, b->facts[i].text) ||
		    !!a->facts[i].place != !!b->facts[i].place)
			return false;
	return true;
}

/*
 * Returns how many findings from index `first` on are printed as one block: those with the same text at places near
 * each other.
 */
static size_t run_length(const struct text_printer *t, const struct report *r, size_t first)
{
	const struct report_finding *f = &r->list[first];
	size_t n = 1;

	while (first + n < r->count && f->places == 1 && f[n].places == 1 && !f->seen && !f[n].seen &&
	       f->compiler == f[n].compiler && f[n].place.addr - f[n - 1].place.addr <= NEAR && is_shown(t, &f[n]) &&
	       f->place.section && same_finding(f, &f[n]))
		n++;
	return n;
}

static void print_facts(const struct text_printer *t, const struct report_finding *f)
{
	size_t i;

	for (i = 0; i < f->fact_count; i++) {
		const struct report_fact *x = &f->facts[i];

		fprintf(t->out, "    %s", sgr(t, DIM));
		text_clean(t->out, x->label);
		fprintf(t->out, ":%s ", sgr(t, PLAIN));
		if (x->place) {
			fputs("at ", t->out);
			print_place(t, x->place);
			fputs(": ", t->out);
		}
		text_clean(t->out, x->text);
		fputc('\n', t->out);
	}
}

/* Prints the further places of a finding in its function, and the other files that have the finding. */
static void print_others(const struct text_printer *t, const struct report_finding *f)
{
	size_t i, files = f->seen ? f->seen->count - 1 : 0;

	if (f->places > 1) {
		fprintf(t->out, "    %salso:%s", sgr(t, DIM), sgr(t, PLAIN));
		for (i = 0; i < f->also_count && i < ALSO_SHOWN; i++) {
			fputs(i ? ", " : " at ", t->out);
			print_place(t, &f->also[i]);
		}
		fprintf(t->out, f->places - 1 > i ? " and %zu more\n" : "\n", f->places - 1 - i);
	}
	if (files) {
		fprintf(t->out, "    %salso in:%s ", sgr(t, DIM), sgr(t, PLAIN));
		for (i = 0; i < files && i < ALSO_SHOWN; i++) {
			fputs(i ? ", " : "", t->out);
			text_clean_name(t->out, f->seen->list[i + 1].report->path, f->seen->list[i + 1].report->member);
		}
		fprintf(t->out, files > i ? " and %zu more\n" : "\n", files - i);
	}
}

/* Prints the remedy of a finding's ID, unless an earlier finding has printed it. */
static void print_remedy(struct text_printer *t, const struct catalogue_entry *e)
{
	bool *remedy_printed = &t->remedy_printed[e - catalogue];

	if (*remedy_printed)
		return;
	*remedy_printed = true;
	print_wrapped(t->out, "    why: ", e->why);
	print_wrapped(t->out, "    fix: ", e->fix);
}

static void print_finding(struct text_printer *t, const struct report *r, const struct report_finding *f, size_t places)
{
	enum severity s = f->severity;
	char last[256];

	fputs(sgr(t, BOLD), t->out);
	text_clean_name(t->out, r->path, r->member);
	fputs(": ", t->out);
	if (f->place.section) {
		print_place(t, &f->place);
		fputs(": ", t->out);
	}
	fprintf(t->out, "%s%s%s%s:%s ", sgr(t, PLAIN), sgr(t, BOLD), sgr(t, severity_color[s]), severity_name(s),
	        sgr(t, PLAIN));
	text_clean(t->out, f->text);
	if (places > 1) {
		report_place_text(&f[places - 1].place, last, sizeof(last));
		fprintf(t->out, " (%zu places up to ", places);
		text_clean(t->out, last);
		fputc(')', t->out);
	} else if (f->places > 1) {
		fprintf(t->out, " (and at %zu more places)", f->places - 1);
	}
	fputs(f->compiler ? " (compiler-generated)" : "", t->out);
	fprintf(t->out, " %s[%s %s]%s\n", sgr(t, DIM), f->entry->id, f->entry->name, sgr(t, PLAIN));
	print_facts(t, f);
	print_others(t, f);
	print_remedy(t, f->entry);
}

void text_report(struct text_printer *t, const struct report *r)
{
	size_t i, n;

	for (i = 0; i < r->count; i += n) {
		n = 1;
		if (!is_shown(t, &r->list[i]))
			continue;
		n = run_length(t, r, i);
		print_finding(t, r, &r->list[i], n);
	}
}

/* ---- totals ------------------------------------------------------------------------------ */

static void print_count(FILE *out, const char **separator, size_t n, const char *one, const char *many)
{
	if (!n)
		return;
	fprintf(out, "%s%zu %s", *separator, n, n == 1 ? one : many);
	*separator = ", ";
}

static void print_uncounted(FILE *out, const struct totals *n)
{
	static const char *const one[] = {"note not shown", "warning not shown", "error not shown"};
	static const char *const many[] = {"notes not shown", "warnings not shown", "errors not shown"};
	const char *separator = " (";
	int s;

	print_count(out, &separator, n->suppressed, "suppressed", "suppressed");
	print_count(out, &separator, n->known, "in the baseline", "in the baseline");
	print_count(out, &separator, n->gone, "gone since the baseline", "gone since the baseline");
	for (s = SEVERITIES - 1; s >= 0; s--)
		print_count(out, &separator, n->hidden[s], one[s], many[s]);
	print_count(out, &separator, n->skipped, "other file skipped", "other files skipped");
	print_count(out, &separator, n->unusable, "file could not be used", "files could not be used");
	if (*separator == ',')
		fputc(')', out);
}

void text_totals(struct text_printer *t, const struct totals *n)
{
	static const char *const one[] = {"note", "warning", "error"};
	static const char *const many[] = {"notes", "warnings", "errors"};
	const char *separator = "";
	int s;

	for (s = SEVERITIES - 1; s >= 0; s--)
		print_count(t->out, &separator, n->found[s] - n->hidden[s], one[s], many[s]);
	fprintf(t->out, "%s in %zu %s", *separator ? "" : "no findings", n->files, n->files == 1 ? "file" : "files");
	print_uncounted(t->out, n);
	fputc('\n', t->out);
}

void text_explain(FILE *out, const struct catalogue_entry *e, const char *kind)
{
	char where[PATH_MAX];

	fprintf(out, "%s %s (%s, %s)\n%s.\n\n", e->id, e->name, kind, catalogue_group(e), e->title);
	print_wrapped(out, "Why: ", e->why);
	print_wrapped(out, "Fix: ", e->fix);
	document_find("findings.md", where);
	fprintf(out, "\nExamples: ");
	text_clean(out, where);
	fprintf(out, ", section %s\n", e->id);
}
