/* SPDX-License-Identifier: MIT */
/* Prints `etch inspect summary` as text. */
#include "inspect/view_summary.h"
#include "report/text.h"
#include "support/strings.h"
#include "table/sframe.h"

#include <inttypes.h>
#include <stdio.h>

static double percent(uint64_t part, uint64_t whole) { return whole ? 100.0 * (double)part / (double)whole : 0; }

static void file_text(const struct summary *s)
{
	const struct view *v = s->view;
	const struct elf_hardening *h = &s->hardening;
	bool linked = !elf_is_object(&v->file);

	text_clean(stdout, v->path);
	printf(": %s%s%s%s\n", h->is_static ? "static " : "", file_kind(&v->file), s->symbols ? "" : ", stripped",
	       s->dwarf ? ", with DWARF" : "");
	if (s->kernel)
		printf("  of the Linux kernel (its %s): inspect tables and inspect orc show its tables\n", s->kernel);
	if (s->build_id[0])
		printf("  build-id %s\n", s->build_id);
	if (linked)
		printf("  RELRO %s; ", elf_relro_name(h->relro));
	else
		printf("  ");
	printf("stack %s; IBT %s, SHSTK %s\n", elf_stack_name(h->stack), h->ibt ? "yes" : "no", h->shstk ? "yes" : "no");
}

static void coverage_line(uint64_t bytes, const struct coverage *c, const char *source, const char *what)
{
	printf("    %10" PRIu64 "  %6.2f%%  %-10s %s\n", bytes, percent(bytes, c->text - c->padding), source, what);
}

/* Prints the figures of the unwind rows that can be made from the code, even if the file has no table. */
static void code_text(const struct summary *s)
{
	static const char *const what[] = {
		[ETCH_SOURCE_CODE] = "proven from the code alone",
		[ETCH_SOURCE_CFI] = "read from .eh_frame, which the code cannot prove",
		[ETCH_SOURCE_BOTH] = "proven from the code, and .eh_frame agrees",
		[ETCH_SOURCE_PLT] = "known PLT code of linkers",
	};
	static const uint8_t order[] = {ETCH_SOURCE_BOTH, ETCH_SOURCE_CODE, ETCH_SOURCE_CFI, ETCH_SOURCE_PLT};
	const struct frames *fr = &s->view->frames;
	const struct coverage *c = &s->code;
	unsigned i;

	printf("  code: %" PRIu64 " bytes in %zu section%s", c->text, s->code_sections, plural(s->code_sections));
	if (c->padding)
		printf(", of which %" PRIu64 " %s padding between functions", c->padding, c->padding == 1 ? "is" : "are");
	printf("; %zu function%s, %" PRIu64 " instruction%s decoded\n", fr->functions, plural(fr->functions), fr->insns,
	       plural(fr->insns));
	if (!c->text)
		return;
	printf("  unwind rows, by source (bytes of code, padding apart):\n");
	for (i = 0; i < sizeof(order); i++)
		if (c->source[order[i]])
			coverage_line(c->source[order[i]], c, row_source_text(order[i]), what[order[i]]);
	if (fr->undefined)
		coverage_line(fr->undefined, c, "undefined", "inside functions");
	if (fr->elsewhere)
		coverage_line(fr->elsewhere, c, "undefined", "where no function was found");
}

static void tables_text(const struct summary *s)
{
	uint64_t frame = summary_size(s, ".eh_frame"), hdr = summary_size(s, ".eh_frame_hdr");
	const struct unwind_view *u = s->unwind;
	const struct coverage *c = &s->table;
	unsigned i;

	if (!frame)
		printf("  no .eh_frame\n");
	else if (!hdr)
		printf("  .eh_frame: %" PRIu64 " bytes, %.2f%% of the code\n", frame, percent(frame, s->code.text));
	else
		printf("  .eh_frame: %" PRIu64 " bytes, and .eh_frame_hdr %" PRIu64 ": %.2f%% of the code\n", frame, hdr,
		       percent(frame + hdr, s->code.text));
	if (summary_size(s, SFRAME_SECTION))
		printf("  " SFRAME_SECTION ": %" PRIu64 " bytes, %.2f%% of the code\n", summary_size(s, SFRAME_SECTION),
		       percent(summary_size(s, SFRAME_SECTION), s->code.text));
	if (!u->table) {
		printf("  no unwind table (etch inspect orc shows its rows)\n");
		return;
	}
	printf("  unwind table (%s): %zu row%s in %" PRIu64 " bytes, %.2f a row, %.2f%% of %" PRIu64 " bytes of text",
	       u->table, u->row_count, plural(u->row_count), u->bytes,
	       u->row_count ? (double)u->bytes / (double)u->row_count : 0, percent(u->bytes, c->text), c->text);
	if (frame)
		printf(", %.2f%% of .eh_frame%s", percent(u->bytes, frame + hdr), hdr ? " and .eh_frame_hdr" : "");
	if (u->header.map_shift)
		printf("; return-address map of %u bytes\n", 1u << u->header.map_shift);
	else
		printf("; no return-address map\n");
	printf("    %.3f%% of the text, padding apart, has a row", percent(c->covered, c->text - c->padding));
	for (i = 0; i < 4 && u->sources; i++)
		printf("%s %zu %s", i ? "," : "; rows from", c->source_rows[i], row_source_text(i));
	printf("; %zu undefined%s\n", c->undefined_rows, u->sources ? "" : " (" ETCH_SEC_SOURCE " was stripped)");
}

static void exceptions_text(const struct summary *s)
{
	const struct view *v = s->view;
	size_t i, bad = s->exceptions[ETCH_EX_TYPE_LAST + 1];

	if (!v->fixups.table_count)
		return;
	printf("  exception table: %zu instruction%s may fault;", v->fixups.count, plural(v->fixups.count));
	for (i = 0; i <= ETCH_EX_TYPE_LAST; i++)
		printf("%s %zu %s", i ? "," : "", s->exceptions[i], ex_type_name((uint32_t)i));
	if (bad)
		printf(", %zu malformed", bad);
	putchar('\n');
}

static void findings_text(const struct summary *s)
{
	const size_t *n = s->severities;
	size_t i;

	printf("  findings: %zu error%s, %zu warning%s, %zu note%s%s\n", n[SEVERITY_ERROR], plural(n[SEVERITY_ERROR]),
	       n[SEVERITY_WARNING], plural(n[SEVERITY_WARNING]), n[SEVERITY_NOTE], plural(n[SEVERITY_NOTE]),
	       s->found_count ? " (see etch check)" : "");
	for (i = 0; i < s->found_count; i++) {
		const struct catalogue_entry *x = catalogue_find(s->found[i].what);

		printf("    %6zu  %-7s  %s  %s\n", s->found[i].count, severity_name(x->severity), x->id, x->title);
	}
}

static void kept_text(const struct tallies *t, const char *what)
{
	size_t i;

	if (t->kept_count)
		printf("  %s\n", what);
	for (i = 0; i < t->kept_count; i++)
		printf("    %6zu  %s\n", t->kept[i].count, t->kept[i].what);
}

static void calls_text(const struct summary *s)
{
	bool linked = !elf_is_object(&s->view->file);
	size_t i;

	if (s->calls.all) {
		printf("  %zu call%s through function pointers of etched objects: %zu %s", s->calls.all, plural(s->calls.all),
		       s->calls.sites, s->calls.sites == 1 ? "is a site" : "are sites");
		if (linked)
			printf(", %zu of them can be patched live, %zu with their page;", s->calls.live, s->calls.swap);
		for (i = 0; linked && i < s->state_count; i++)
			printf("%s %zu %s", i ? "," : "", s->states[i].count, s->states[i].what);
		putchar('\n');
	}
	if (s->in_place)
		printf("  %zu call%s compiled in place: %zu in place now, %zu called\n", s->in_place, plural(s->in_place),
		       s->in_place_now, s->in_place - s->in_place_now);
}

static void sites_text(const struct summary *s)
{
	const struct view *v = s->view;
	bool linked = !elf_is_object(&v->file);

	if (!v->scan.objects.count) {
		printf("  no etched object (mark one with ETCHED or DEFINE_IMV of <etch/imv.h>)\n");
		return;
	}
	printf("  %zu load%s of etched objects: %zu %s an immediate form", s->loads.all, plural(s->loads.all),
	       s->loads.sites, s->loads.sites == 1 ? "has" : "have");
	if (linked)
		printf(", %zu of them can be patched live, %zu with their page, %zu are immediates now", s->loads.live,
		       s->loads.swap, s->immediates);
	if (s->unfit)
		printf(s->unfit == 1 ? "; %zu holds a value that does not fit" : "; %zu hold values that do not fit", s->unfit);
	putchar('\n');
	calls_text(s);
	printf("  %zu plain store%s, %zu escape%s of an address\n", s->stores, plural(s->stores), s->escapes,
	       plural(s->escapes));
	if (linked)
		printf("  table: %zu bytes a site, %" PRIu64 " bytes in all%s\n", sizeof(struct etch_imv),
		       (v->tables.imv_capacity + v->tables.pv_capacity) * sizeof(struct etch_imv),
		       v->tables.flags & ETCH_MODULE_LINKED ? "" : "; the link step has not run");
	kept_text(&s->loads, "loads that stay loads, and why:");
	kept_text(&s->calls, "calls that stay indirect while threads run, and why:");
	putchar('\n');
	listing_print(&s->objects, FORMAT_TEXT);
}

void summary_text(const struct summary *s)
{
	file_text(s);
	code_text(s);
	tables_text(s);
	exceptions_text(s);
	findings_text(s);
	sites_text(s);
}
