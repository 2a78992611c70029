/* SPDX-License-Identifier: MIT */
/* Finds the function and source line of each finding, and computes fingerprints. */
#include "report/report.h"

#include "dwarf/lines.h"
#include "elf/symbols.h"
#include "support/memory.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is needed to resolve places. */
struct resolver {
	const struct elf_file *file;
	struct symbol_index symbols;
	struct lines *lines;
};

static void place_make(struct resolver *r, uint32_t section, uint64_t addr, struct report_place *out)
{
	const struct elf_section *s = &r->file->sections[section];
	const struct elf_symbol *y;
	const char *source;
	int line = 0;

	*out = (struct report_place){.addr = addr};
	if (!section || section >= r->file->section_count)
		return;
	out->section = mem_string(s->name);
	out->offset = elf_is_object(r->file) ? addr : addr - s->sh.sh_addr;
	y = symbol_index_find(&r->symbols, section, addr);
	if (y) {
		out->function = mem_string(y->name);
		out->offset = addr - y->value;
	}
	source = lines_source(r->lines, section, addr, &line);
	if (source && line > 0) {
		out->source = mem_string(source);
		out->line = (unsigned)line;
	}
}

static uint64_t hash_byte(uint64_t h, char c) { return (h ^ (unsigned char)c) * 0x100000001b3; } /* FNV-1a */

/*
 * Returns the fingerprint of a finding. It stays the same in builds in which only other code has changed. So the
 * numbers in the text, which are mostly addresses and sizes, do not contribute to it.
 */
static uint64_t fingerprint_of(const struct report_finding *f)
{
	uint64_t h = 0xcbf29ce484222325;
	const char *p;

	for (p = f->entry->id; *p; p++)
		h = hash_byte(h, *p);
	h = hash_byte(h, 0);
	for (p = f->place.function ? f->place.function : ""; *p; p++)
		h = hash_byte(h, *p);
	h = hash_byte(h, 0);
	for (p = f->text; *p;) {
		bool number = p[0] == '0' && p[1] == 'x';

		if (!number && !isdigit((unsigned char)*p)) {
			h = hash_byte(h, *p++);
			continue;
		}
		h = hash_byte(h, '#');
		for (p += number ? 2 : 0; isxdigit((unsigned char)*p) && (number || isdigit((unsigned char)*p)); p++)
			;
	}
	return h;
}

static void fact_make(struct resolver *r, struct fact *from, struct report_fact *to)
{
	*to = (struct report_fact){.label = from->label, .text = from->text};
	from->label = from->text = NULL;
	if (!from->placed)
		return;
	to->place = mem_zero(1, sizeof(*to->place));
	place_make(r, from->section, from->addr, to->place);
}

static void finding_make(struct resolver *r, struct finding *from, struct report_finding *to)
{
	size_t i;

	*to = (struct report_finding){.entry = catalogue_find(from->id),
	                              .text = from->text,
	                              .compiler = from->compiler,
	                              .places = from->places ? from->places : 1,
	                              .key = from->key};
	to->severity = to->entry->severity;
	from->text = NULL;
	place_make(r, from->section, from->addr, &to->place);
	to->facts = mem_zero(from->fact_count, sizeof(*to->facts));
	to->also = from->also_count ? mem_zero(from->also_count, sizeof(*to->also)) : NULL;
	for (i = 0; i < from->fact_count; i++)
		fact_make(r, &from->facts[i], &to->facts[i]);
	to->fact_count = from->fact_count;
	for (; to->also_count < from->also_count; to->also_count++)
		place_make(r, from->section, from->also[to->also_count], &to->also[to->also_count]);
	to->fingerprint = fingerprint_of(to);
}

void report_make(struct report *r, const struct elf_file *f, struct findings *from)
{
	struct resolver resolver = {.file = f};
	size_t i;

	findings_sort(from);
	r->list = mem_zero(from->count + 1, sizeof(*r->list));
	if (from->count) {
		symbol_index_build(f, symbol_is_function, &resolver.symbols);
		resolver.lines = lines_open(f);
	}
	for (i = 0; i < from->count; i++)
		if (catalogue_find(from->list[i].id))
			finding_make(&resolver, &from->list[i], &r->list[r->count++]);
	lines_close(resolver.lines);
	symbol_index_free(&resolver.symbols);
	findings_free(from);
}

static void place_free(struct report_place *p)
{
	free(p->section);
	free(p->function);
	free(p->source);
}

void report_free(struct report *r)
{
	size_t i, k;

	for (i = 0; i < r->count; i++) {
		struct report_finding *f = &r->list[i];

		for (k = 0; k < f->fact_count; k++) {
			free(f->facts[k].label);
			free(f->facts[k].text);
			if (f->facts[k].place)
				place_free(f->facts[k].place);
			free(f->facts[k].place);
		}
		free(f->facts);
		for (k = 0; k < f->also_count; k++)
			place_free(&f->also[k]);
		free(f->also);
		free(f->text);
		free(f->suppressed);
		place_free(&f->place);
	}
	free(r->list);
	free(r->path);
	free(r->member);
	free(r->error);
	*r = (struct report){0};
}

void report_place_text(const struct report_place *p, char *out, size_t size)
{
	const char *name = p->function ? p->function : p->section;

	if (!name)
		snprintf(out, size, "-");
	else if (p->function && !p->offset)
		snprintf(out, size, "%.200s", name);
	else
		snprintf(out, size, "%.200s+0x%" PRIx64, name, p->offset);
}
