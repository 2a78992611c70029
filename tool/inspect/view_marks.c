/* SPDX-License-Identifier: MIT */
/* Implements `etch inspect marks`: shows the markers of a file (etch/mark.h), which are in section __etch_mark. */
#include "inspect/inspect.h"
#include "shared/search.h"

#include <etch/branch_format.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct column mark_columns[] = {
	{"address", false}, {"name", false},     {"types", false}, {"arguments", false},
	{"live", false},    {"function", false}, {"file", false},  {"line", true},
};

static const char *const type_names[ETCH_MARK_OTHER + 1] = {
	[ETCH_MARK_I8] = "int8",
	[ETCH_MARK_U8] = "uint8",
	[ETCH_MARK_I16] = "int16",
	[ETCH_MARK_U16] = "uint16",
	[ETCH_MARK_I32] = "int32",
	[ETCH_MARK_U32] = "uint32",
	[ETCH_MARK_I64] = "int64",
	[ETCH_MARK_U64] = "uint64",
	[ETCH_MARK_BOOL] = "bool",
	[ETCH_MARK_DOUBLE] = "double",
	[ETCH_MARK_LONG_DOUBLE] = "long double",
	[ETCH_MARK_STRING] = "string",
	[ETCH_MARK_POINTER] = "pointer",
	[ETCH_MARK_OTHER] = "struct",
};

/* One table of markers: a section with, in an object file, its relocations. */
struct table {
	const struct elf_file *f;
	const struct elf_section *s;
	struct elf_reloc *r; /* sorted by offset */
	long relocs;
	uint64_t *text; /* number of bytes of strings that may still be printed */
};

/*
 * Strings of a malicious file may share bytes. So the strings that are printed may have, in sum, at most this many
 * bytes per byte of the file, plus one MiB.
 */
#define TEXT_TIMES 16u

/*
 * Returns the address to which a field of the table refers; in an object file, its offset in *section. Sets *section to
 * 0 if the address is in no section.
 */
static uint64_t refers(const struct table *t, uint64_t at, uint32_t *section)
{
	const struct elf_symbol *y;
	int32_t rel;
	size_t k;

	*section = 0;
	if (!elf_is_object(t->f)) {
		memcpy(&rel, t->s->data + at, sizeof(rel));
		*section = elf_section_at(t->f, t->s->sh.sh_addr + at + (uint64_t)(int64_t)rel);
		return t->s->sh.sh_addr + at + (uint64_t)(int64_t)rel;
	}
	k = SEARCH((size_t)t->relocs, i, t->r[i].offset < at);
	if (k == (size_t)t->relocs || t->r[k].offset != at || t->r[k].symbol >= t->f->symbol_count)
		return 0;
	y = &t->f->symbols[t->r[k].symbol];
	*section = y->section;
	return y->value + (uint64_t)t->r[k].addend;
}

/*
 * Returns the NUL-terminated string to which a field refers, or "" if it refers to none. Returns null if too many bytes
 * of strings have been printed.
 */
static const char *string_of(const struct table *t, uint64_t at)
{
	uint32_t section;
	uint64_t to = refers(t, at, &section), left, size;
	const struct elf_section *s = section && section < t->f->section_count ? &t->f->sections[section] : NULL;

	if (!s || !s->data || s->sh.sh_type == SHT_NOBITS)
		return "";
	to -= elf_is_object(t->f) ? 0 : s->sh.sh_addr;
	if (to >= s->sh.sh_size)
		return "";
	left = s->sh.sh_size - to;
	size = strnlen((const char *)s->data + to, left < *t->text ? left : *t->text);
	if (size == *t->text)
		return NULL;
	*t->text -= size + 1;
	return size < left ? (const char *)s->data + to : "";
}

/* Returns the text of a marker's arguments, which follows its name. */
static const char *arguments_of(const char *text)
{
	text += strcspn(text, ",");
	return text + strspn(text, ", ");
}

static void types_print(const struct etch_mark *m, char *out, size_t size)
{
	size_t at = 0;
	unsigned i;

	snprintf(out, size, "-");
	for (i = 0; i < m->count && i < ETCH_MARK_ARGS && at < size; i++)
		at += (size_t)snprintf(out + at, size - at, "%s%s", i ? "," : "",
		                       m->type[i] <= ETCH_MARK_OTHER && type_names[m->type[i]] ? type_names[m->type[i]] : "?");
}

static int mark_add(const struct view *v, const struct table *t, uint64_t at, struct listing *l, struct error *e)
{
	const uint64_t mark = at + offsetof(struct etch_mark_site, mark);
	struct etch_mark_site raw;
	char types[ETCH_MARK_ARGS * 16], where[256];
	uint32_t section;
	uint64_t site = refers(t, at, &section);
	const char *args, *name, *file;
	bool swap;

	if (!section || !(v->file.sections[section].sh.sh_flags & SHF_EXECINSTR))
		return 0; /* the linker has discarded the marker's code */
	args = string_of(t, mark + offsetof(struct etch_mark, args));
	name = args ? string_of(t, mark + offsetof(struct etch_mark, name)) : NULL;
	file = name ? string_of(t, mark + offsetof(struct etch_mark, file)) : NULL;
	if (!file)
		return error_set(e, "section %s: texts of markers add up to many times the file size", t->s->name);
	args = arguments_of(args);
	memcpy(&raw, t->s->data + at, sizeof(raw));
	types_print(&raw.mark, types, sizeof(types));
	view_place(v, section, site, where, sizeof(where));
	swap = !etch_site_is_live(site, ETCH_BRANCH_LEN);
	listing_add(l, "%" PRIx64, site);
	listing_add(l, "%s", name);
	listing_add(l, "%s", types);
	listing_add(l, "%s", *args ? args : "-");
	listing_add(l, "%s", swap ? "swap" : "yes");
	listing_add(l, "%s", where);
	listing_add(l, "%s", file);
	listing_add(l, "%" PRIu32, raw.mark.line);
	return 0;
}

static int marks_list(const struct view *v, struct listing *l, struct error *e)
{
	const struct elf_file *f = &v->file;
	uint64_t at, text = TEXT_TIMES * (uint64_t)f->size + (1u << 20);
	uint32_t i;
	int err = 0;

	listing_init(l, mark_columns, sizeof(mark_columns) / sizeof(mark_columns[0]));
	for (i = 1; i < f->section_count && !err; i++) {
		struct table t = {.f = f, .s = &f->sections[i], .text = &text};
		uint32_t rel = elf_is_object(f) ? elf_section_rela(f, i, 1) : 0;

		if (!elf_name_is(t.s->name, ETCH_SEC_MARK) || !t.s->data || t.s->sh.sh_type != SHT_PROGBITS)
			continue;
		if (t.s->sh.sh_size % sizeof(struct etch_mark_site))
			return error_set(e, "section %s: its size is no multiple of %zu", t.s->name, sizeof(struct etch_mark_site));
		if (rel && (t.relocs = elf_relocs(f, rel, &t.r, e)) < 0)
			return -1;
		for (at = 0; at < t.s->sh.sh_size && !err; at += sizeof(struct etch_mark_site))
			err = mark_add(v, &t, at, l, e);
		free(t.r);
	}
	return err;
}

int show_marks(const struct view *v, enum format format, struct error *e)
{
	struct listing l;
	int err = marks_list(v, &l, e);

	if (!err)
		view_list_print(v, "marks", &l, format, "no marker");
	listing_free(&l);
	return err;
}
