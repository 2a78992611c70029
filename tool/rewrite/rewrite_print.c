/* SPDX-License-Identifier: MIT */
/* Prints the output of `etch rewrite`: findings, and the summary of a file. */
#include "dwarf/lines.h"
#include "elf/symbols.h"
#include "report/text.h"
#include "support/strings.h"
#include "rewrite/rewrite.h"
#include "site/bake.h"
#include "site/armed_objects.h"
#include "support/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FINDINGS_SHOWN 10 /* findings about unwind rows per file, without -v */
#define FINDINGS_NEAR  64 /* greatest distance in bytes of findings that share a line */

/* The data that printing a finding needs. */
struct finding_printer {
	const char *path;
	const struct elf_file *file;
	struct symbol_index names;
	struct lines *lines;
};

/* Prints a finding: "FILE: ID: function+offset (source line): text". */
static void print_finding(const struct finding_printer *s, const struct finding *x, const char *text)
{
	char source[256] = "-", where[256];

	symbol_index_describe(&s->names, s->file, x->section, x->addr, where, sizeof(where));
	if (x->section)
		lines_find(s->lines, x->section, x->addr, source, sizeof(source));
	text_remark(s->path, source[0] == '-' ? "%s: %s%.0s: %s" : "%s: %s (%s): %s", x->id, where, source, text);
}

/* Returns the length of the run of nearby findings from `first` on that have the same ID and text, and so share a
 * line. */
static size_t finding_run(const struct findings *l, size_t first)
{
	const struct finding *x = &l->list[first];
	size_t n = 1;

	while (first + n < l->count && x[n].section == x->section && x[n].addr - x[n - 1].addr <= FINDINGS_NEAR &&
	       !strcmp(x->id, x[n].id) && !strcmp(x->text, x[n].text))
		n++;
	return n;
}

static void print_frames(const struct finding_printer *s, const struct findings *l, bool all)
{
	size_t shown = 0, i = 0, n;

	for (; i < l->count && (all || shown < FINDINGS_SHOWN); i += n, shown++) {
		const struct finding *x = &l->list[i];
		char last[256], text[800];

		n = finding_run(l, i);
		snprintf(text, sizeof(text), "%s", x->text);
		if (n > 1) {
			symbol_index_describe(&s->names, s->file, x[n - 1].section, x[n - 1].addr, last, sizeof(last));
			snprintf(text, sizeof(text), "%.500s (%zu places up to %s)", x->text, n, last);
		}
		print_finding(s, x, text);
	}
	if (i < l->count)
		text_remark(s->path, "note: %zu more finding%s about unwind rows; -v shows them", l->count - i,
		            l->count - i == 1 ? "" : "s");
}

/* Lists the FDEs that contradict the code, and whether they were replaced. */
static void print_replaced(const struct finding_printer *s, const struct eh_replaced *x)
{
	size_t i;

	for (i = 0; i < x->wrong_count; i++) {
		const struct eh_wrong *w = &x->wrong[i];
		char where[256];

		symbol_index_describe(&s->names, s->file, elf_section_at(s->file, w->start), w->start, where, sizeof(where));
		text_remark(
			s->path, "note: %s: the FDE for %#" PRIx64 " to %#" PRIx64 " %s", where, w->start, w->end,
			w->replaced
				? "is replaced"
				: "is not replaced: the code does not prove all of it, or it has an LSDA or a personality routine");
	}
}

/* Indexes the symbols that the findings need. */
static void names_find(struct finding_printer *to, const struct findings *a, const struct findings *b,
                       const struct eh_replaced *fdes)
{
	struct symbol_place *places = mem_alloc(a->count + b->count + fdes->wrong_count, sizeof(*places));
	size_t n = 0, i;

	for (i = 0; i < a->count; i++)
		places[n++] = (struct symbol_place){a->list[i].section, a->list[i].addr};
	for (i = 0; i < b->count; i++)
		places[n++] = (struct symbol_place){b->list[i].section, b->list[i].addr};
	for (i = 0; i < fdes->wrong_count; i++)
		places[n++] = (struct symbol_place){elf_section_at(to->file, fdes->wrong[i].start), fdes->wrong[i].start};
	symbol_index_build_of(to->file, symbol_is_place, places, n, &to->names);
	free(places);
}

size_t rewrite_print_findings(const char *path, const struct elf_file *f, const struct scan *s,
                              const struct rewrite_result *r, bool all)
{
	const struct findings *frames = &r->unwind.frames.findings;
	size_t count = s->findings.count + frames->count, i;
	struct finding_printer finding_printer = {.path = path, .file = f};

	if (count)
		names_find(&finding_printer, &s->findings, frames, &r->unwind.eh.replaced);
	finding_printer.lines = count ? lines_open(f) : NULL;
	for (i = 0; i < s->findings.count; i++)
		print_finding(&finding_printer, &s->findings.list[i], s->findings.list[i].text);
	print_frames(&finding_printer, frames, all);
	print_replaced(&finding_printer, &r->unwind.eh.replaced);
	lines_close(finding_printer.lines);
	symbol_index_free(&finding_printer.names);
	return count;
}

void rewrite_print_objects(const char *path, struct scan *s, bool all)
{
	const char *why = NULL;
	size_t i;

	for (i = 0; i < s->objects.defined; i++) {
		const struct object *o = &s->objects.list[i];

		if (o->memberless) {
			if (!why)
				why = members_missing_why(scan_lines(s), s->file);
			text_remark(path, "note: %s: no member information (%s): guarded as a whole", o->name, why);
		}
		if (all && o->exported)
			text_remark(path, "note: %s: %s", o->name, OBJECT_EXPORTED);
	}
}

/* Prints the counts of calls through ops objects, if there are any. */
static void print_calls(const struct elf_file *f, const struct rewrite_result *r)
{
	const struct rewrite_counts *c = &r->calls;
	const struct bake_counts *b = &c->baked;

	printf("calls: %zu site%s", c->sites, plural(c->sites));
	if (!elf_is_object(f))
		printf(", %zu live, %zu by swap: %zu direct, %zu nop, %zu inlined, %zu indirect", c->live, c->swap, b->direct,
		       b->nops, b->bodies, c->sites - b->direct - b->nops - b->bodies);
	printf("; %zu without a form", c->kept);
	if (r->in_place)
		printf("; %zu of %zu in place", r->in_place_baked, r->in_place);
}

/* Prints the counts of loads. */
static void print_loads(const struct elf_file *f, const struct rewrite_result *r)
{
	const struct rewrite_counts *c = &r->loads;

	printf("%zu site%s", c->sites, plural(c->sites));
	if (!elf_is_object(f))
		printf(", %zu live, %zu by swap, %zu baked", c->live, c->swap, c->baked.immediates);
	printf(", %zu load%s without an immediate form", c->kept, plural(c->kept));
}

/* Prints what the rows of the unwind table cover, and what they take. */
static void print_rows(const struct unwind_made *u)
{
	const struct frames *fr = &u->frames;
	uint64_t code = fr->text - fr->padding;

	printf("%zu unwind row%s in %zu function%s, %llu bytes (%.2f a row, %.2f%% of text), %.3f%% of the code covered",
	       u->rows, plural(u->rows), fr->functions, plural(fr->functions), (unsigned long long)u->unwind_bytes,
	       u->rows ? (double)u->unwind_bytes / (double)u->rows : 0.0,
	       u->text ? 100.0 * (double)u->unwind_bytes / (double)u->text : 0.0,
	       code ? 100.0 * (double)(fr->covered - fr->padding_covered) / (double)code : 0.0);
	if (fr->undefined + fr->elsewhere)
		printf(" (without a row: %llu bytes inside functions, %llu where no function was found)",
		       (unsigned long long)fr->undefined, (unsigned long long)fr->elsewhere);
}

/* Prints what other forms of the unwind table there are: register table, .sframe and .eh_frame. */
static void print_other_tables(const struct unwind_made *u)
{
	if (u->register_bytes)
		printf("; register table: %llu bytes", (unsigned long long)u->register_bytes);
	if (u->register_lost)
		printf(", without %zu place%s that it cannot express", u->register_lost, plural(u->register_lost));
	if (u->sframe.version)
		printf("; .sframe version %u: %zu FRE%s in %zu FDE%s, %zu bytes", u->sframe.version, u->sframe.fres,
		       plural(u->sframe.fres), u->sframe.fdes, plural(u->sframe.fdes), u->sframe.size);
	if (u->sframe.gap_rows)
		printf(", without %zu row%s for %llu byte%s of code that SFrame cannot express", u->sframe.gap_rows,
		       plural(u->sframe.gap_rows), (unsigned long long)u->sframe.gaps, plural(u->sframe.gaps));
	if (u->eh.frame_size)
		printf("; .eh_frame: %zu FDEs more than the linker's %zu, for %llu bytes of code, %zu bytes",
		       u->eh.count - u->eh.copied, u->eh.copied, (unsigned long long)u->eh.filled,
		       u->eh.frame_size + u->eh.hdr_size);
	if (u->eh.replaced.count)
		printf(", %zu FDE%s of the linker replaced", u->eh.replaced.count, plural(u->eh.replaced.count));
}

void rewrite_print_summary(const char *path, const struct elf_file *f, const struct rewrite_options *o,
                           const struct rewrite_result *r)
{
	bool calls = o->pv && (!o->imv || r->calls.sites + r->calls.kept), sites = o->imv || calls;

	text_clean_name(stdout, path, NULL);
	printf(": ");
	if (o->imv)
		print_loads(f, r);
	if (o->imv && calls)
		printf("; ");
	if (calls)
		print_calls(f, r);
	if (sites && o->orc)
		printf("; ");
	if (o->orc)
		print_rows(&r->unwind);
	print_other_tables(&r->unwind);
	if (r->ex_entries)
		printf("%s%zu %s of an exception table", sites || o->orc ? "; " : "", r->ex_entries,
		       r->ex_entries == 1 ? "entry" : "entries");
	if (r->ex_dropped)
		printf(", %zu of them for discarded code", r->ex_dropped);
	if (r->orc_sorted)
		printf(", %zu row%s of the object step sorted", r->orc_sorted, plural(r->orc_sorted));
	printf("%s\n", r->bytes ? "" : " (unchanged)");
}

/* Returns by how much the file offset of the lowest segment has increased. */
static uint64_t moved_by(const struct elf_file *f, const uint8_t *made, const Elf64_Ehdr *eh)
{
	const Elf64_Phdr *old = f->phdrs;
	Elf64_Phdr p;
	uint32_t i;

	while (old < f->phdrs + f->phdr_count && old->p_type != PT_LOAD)
		old++;
	for (i = 0; i < eh->e_phnum && old < f->phdrs + f->phdr_count; i++) {
		memcpy(&p, made + eh->e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type == PT_LOAD && old->p_vaddr - p.p_vaddr < p.p_memsz)
			return p.p_offset + (old->p_vaddr - p.p_vaddr) - old->p_offset;
	}
	return 0;
}

/* Returns the highest end of a segment, where the kernel begins the heap if addresses are not randomized. Sets *program
 * if the file has an interpreter. */
static uint64_t loads_end(const uint8_t *table, uint32_t count, bool *program)
{
	uint64_t end = 0;
	Elf64_Phdr p;

	for (uint32_t i = 0; i < count; i++) {
		memcpy(&p, table + i * sizeof(p), sizeof(p));
		if (p.p_type == PT_LOAD && p.p_vaddr + p.p_memsz > end)
			end = p.p_vaddr + p.p_memsz;
		*program |= p.p_type == PT_INTERP;
	}
	return end;
}

static bool imports_brk(const struct elf_file *f)
{
	for (uint32_t i = 0; i < f->dynsym_count; i++)
		if (!f->dynsyms[i].section && (!strcmp(f->dynsyms[i].name, "brk") || !strcmp(f->dynsyms[i].name, "sbrk")))
			return true;
	return false;
}

/* Warns about a position-independent program that seems to use brk(2) and to expect its heap at _end, if the heap
 * begins later now. */
static void print_break(const char *path, const struct elf_file *f, const uint8_t *made, const Elf64_Ehdr *eh)
{
	bool program = false, ignored = false;
	uint64_t was = loads_end((const uint8_t *)f->phdrs, f->phdr_count, &program);
	uint64_t is = loads_end(made + eh->e_phoff, eh->e_phnum, &ignored);

	if (program && is > was && imports_brk(f) && segment_end_is_used(f->bytes, f->size))
		text_remark(path,
		            "note: it uses brk and _end; its heap begins %" PRIu64
		            " bytes further up now if addresses are not randomized (setarch -R, gdb)",
		            is - was);
}

void rewrite_print_headers(const char *path, const struct elf_file *f, const struct rewrite_result *done)
{
	uint64_t by;
	Elf64_Ehdr eh;

	if (elf_is_object(f) || !done->bytes || done->size < sizeof(eh))
		return;
	memcpy(&eh, done->bytes, sizeof(eh));
	if (eh.e_phoff != f->eh.e_phoff && eh.e_phoff != sizeof(eh))
		text_remark(path, "note: the program headers are now at the end of the file; GNU strip and objcopy damage such "
		                  "a file, eu-strip does not");
	print_break(path, f, done->bytes, &eh);
	by = moved_by(f, done->bytes, &eh);
	if (by)
		text_remark(path,
		            "note: its contents moved by %" PRIu64
		            " bytes in the file, after what was added; addresses are unchanged",
		            by);
}
