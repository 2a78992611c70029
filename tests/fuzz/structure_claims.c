/* SPDX-License-Identifier: MIT */
/*
 * Structural mutants of tables that lead into one another: headers over headers, sections that link in a circle, versions,
 * groups and relative relocations that have no end, DWARF whose lengths and forms say more than there is, names without end.
 */
#include "structure_fields.h"

#define PAGE 4096u

static const uint64_t huge[] = {0, 1, 2, 0x7f, 0xff, 0xffff, 0x7fffffff, 0x80000000, 0xfffffff0, 0xfffffffc, 0xffffffff, 1ull << 32, 1ull << 40,
                                1ull << 62, 1ull << 63, ~0ull - 11, ~0ull};

static uint64_t any_huge(struct mutant *m) { return huge[structure_below(m, COUNT(huge))]; }

/* Where a section's contents begin; 0: it has none of at least `n` bytes in the file. */
static uint64_t contents_of(struct mutant *m, uint64_t sh, uint64_t n)
{
	uint64_t at = GET(m, sh, Elf64_Shdr, sh_offset), size = GET(m, sh, Elf64_Shdr, sh_size);

	return sh && size >= n && holds(m, at, size) ? at : 0;
}

/* ---- headers ------------------------------------------------------------------------------ */

/* The tables of headers lie over one another, over the file's header or over what a section has. */
static bool headers_over(struct mutant *m)
{
	uint64_t near = chance(m, 3) ? 0 : structure_below(m, 9) * 8;

	switch (structure_below(m, 4)) {
	case 0: return EH_PUT(m, e_shoff, EH(m, e_phoff) + near);
	case 1: return phdr_count(m) && EH_PUT(m, e_phoff, EH(m, e_shoff) + near);
	case 2: return EH_PUT(m, e_shoff, near);
	default: return any_section(m) && PUT(m, any_section(m), Elf64_Shdr, sh_offset, chance(m, 2) ? EH(m, e_shoff) + near : EH(m, e_phoff) + near);
	}
}

/* Two or three sections link to one another, by sh_link, sh_info or both, and are of types that follow such links. */
static bool link_circle(struct mutant *m)
{
	static const uint32_t kinds[] = {SHT_SYMTAB, SHT_DYNSYM, SHT_RELA, SHT_REL, SHT_GROUP, SHT_SYMTAB_SHNDX, SHT_DYNAMIC, SHT_GNU_HASH, SHT_HASH};
	uint64_t n = section_count(m), first, next, i, count = 1 + structure_below(m, 3);

	if (n < 4)
		return false;
	first = next = 1 + structure_below(m, (uint32_t)n - 1);
	for (i = 0; i < count; i++) {
		uint64_t at = shdr(m, next), to = i + 1 == count ? first : 1 + structure_below(m, (uint32_t)n - 1);

		if (chance(m, 2))
			PUT(m, at, Elf64_Shdr, sh_type, kinds[structure_below(m, COUNT(kinds))]);
		if (!chance(m, 3))
			PUT(m, at, Elf64_Shdr, sh_link, to);
		if (!chance(m, 3))
			PUT(m, at, Elf64_Shdr, sh_info, to);
		next = to;
	}
	return true;
}

/* Sections whose numbers are beyond 16 bits: symbols that ask SHT_SYMTAB_SHNDX, which is short, or another table. */
static bool section_numbers(struct mutant *m)
{
	uint64_t tab = section_like(m, SHT_SYMTAB, NULL), sh = any_section(m), i, n = 1 + structure_below(m, 8);

	if (!tab || sh == tab)
		return false;
	PUT(m, sh, Elf64_Shdr, sh_type, SHT_SYMTAB_SHNDX);
	PUT(m, sh, Elf64_Shdr, sh_link, (tab - EH(m, e_shoff)) / sizeof(Elf64_Shdr));
	for (i = 0; i < n; i++) {
		uint64_t at = record_in(m, tab, sizeof(Elf64_Sym));

		if (at)
			PUT(m, at, Elf64_Sym, st_shndx, SHN_XINDEX);
	}
	return true;
}

/* A group that has itself, others' members, or more than there are. */
static bool group(struct mutant *m)
{
	uint64_t sh = section_like(m, SHT_GROUP, NULL), at, n = section_count(m), i;

	sh = sh ? sh : any_section(m);
	at = contents_of(m, sh, 8);
	if (!at || n < 3)
		return false;
	PUT(m, sh, Elf64_Shdr, sh_type, SHT_GROUP);
	PUT(m, sh, Elf64_Shdr, sh_info, number(m, GET(m, sh, Elf64_Shdr, sh_info), 32));
	put(m, "group's flags", at, 4, chance(m, 2) ? 1 : wide(m));
	for (i = 4; i + 4 <= GET(m, sh, Elf64_Shdr, sh_size) && i < 32; i += 4)
		put(m, "member", at + i, 4, chance(m, 3) ? (sh - EH(m, e_shoff)) / sizeof(Elf64_Shdr) : number(m, get(m, at + i, 4), n));
	return true;
}

/* ---- dynamic ------------------------------------------------------------------------------ */

/* Relative relocations (DT_RELR), of what was something else: bitmaps that have all bits, addresses that are none. */
static bool relr(struct mutant *m)
{
	static const uint64_t tags[] = {36, 35, 37};
	uint64_t sh = any_section(m), at = contents_of(m, sh, 16), dynamic = section_like(m, SHT_DYNAMIC, NULL);
	uint64_t entries = contents_of(m, dynamic, 3 * sizeof(Elf64_Dyn)), count = GET(m, dynamic, Elf64_Shdr, sh_size) / sizeof(Elf64_Dyn), k, i;
	const uint64_t values[] = {GET(m, sh, Elf64_Shdr, sh_addr), chance(m, 2) ? GET(m, sh, Elf64_Shdr, sh_size) : any_huge(m), chance(m, 4) ? 0 : 8};

	if (!at)
		return false;
	PUT(m, sh, Elf64_Shdr, sh_type, SHT_RELR);
	PUT(m, sh, Elf64_Shdr, sh_entsize, chance(m, 4) ? 0 : 8);
	for (i = 0; i + 8 <= GET(m, sh, Elf64_Shdr, sh_size) && i < 64; i += 8)
		if (!i)
			put(m, "relr", at, 8, GET(m, any_section(m), Elf64_Shdr, sh_addr));
		else
			put(m, "relr", at + i, 8, chance(m, 2) ? ~0ull : any_huge(m));
	for (k = 0; k < 3 && entries && count > 4 && count < SCAN_MOST; k++) {
		uint64_t to = entries + (count - 4 + k) * sizeof(Elf64_Dyn);

		PUT(m, to, Elf64_Dyn, d_tag, tags[k]);
		PUT(m, to, Elf64_Dyn, d_un, values[k]);
	}
	return true;
}

/* Versions that lead back, to themselves or out of the table; symbols of versions that are none. */
static bool versions(struct mutant *m)
{
	static const uint32_t kinds[] = {SHT_GNU_verneed, SHT_GNU_verdef, SHT_GNU_versym};
	unsigned kind = structure_below(m, COUNT(kinds)), i;
	uint64_t sh = section_like(m, kinds[kind], NULL), at = contents_of(m, sh, 16), size = GET(m, sh, Elf64_Shdr, sh_size);
	const uint64_t steps[] = {0, 1, 8, 16, 0xfffffff0, 0x7ffffff0, 0xffffffff, 0x80000000};

	if (!at || size > PAGE * 16)
		return false;
	for (i = 0; i < 3; i++) {
		uint64_t to = at + structure_below(m, (uint32_t)size / 4) * 4;

		if (kind == 2)
			put(m, "symbol's version", to, 2, chance(m, 2) ? 0x8000 | structure_below(m, 64) : structure_below(m, 65536));
		else
			put(m, "version's link", to, 4, steps[structure_below(m, COUNT(steps))]);
	}
	return chance(m, 2) || PUT(m, sh, Elf64_Shdr, sh_info, any_huge(m));
}

/* ---- notes and debug information ---------------------------------------------------------- */

/* Names and descriptions of notes that are longer than any file; in sections and segments. */
static bool note_sizes(struct mutant *m)
{
	uint64_t sh = section_like(m, SHT_NOTE, NULL), at = contents_of(m, sh, 12);

	if (!at)
		return false;
	if (chance(m, 3))
		return put(m, "note's type", at + 8, 4, chance(m, 2) ? structure_below(m, 8) : any_huge(m));
	put(m, chance(m, 2) ? "note's name" : "note's description", at + 4 * structure_below(m, 2), 4, any_huge(m));
	return chance(m, 2) || PUT(m, sh, Elf64_Shdr, sh_addralign, 1ull << structure_below(m, 5));
}

/* Compressed contents whose header says another size, alignment or way; or of what is none. */
static bool compressed(struct mutant *m)
{
	uint64_t sh = section_like(m, 0, chance(m, 4) ? ".rodata" : ".debug_"), at = contents_of(m, sh, sizeof(Elf64_Chdr));
	uint64_t flags = GET(m, sh, Elf64_Shdr, sh_flags);

	if (!at)
		return false;
	if (!(flags & SHF_COMPRESSED)) {
		PUT(m, sh, Elf64_Shdr, sh_flags, flags | SHF_COMPRESSED);
		PUT(m, at, Elf64_Chdr, ch_type, 1 + structure_below(m, 3));
		PUT(m, at, Elf64_Chdr, ch_size, any_huge(m));
		return PUT(m, at, Elf64_Chdr, ch_addralign, any_huge(m));
	}
	switch (structure_below(m, 4)) {
	case 0: return PUT(m, at, Elf64_Chdr, ch_type, chance(m, 2) ? structure_below(m, 4) : any_huge(m));
	case 1: return PUT(m, at, Elf64_Chdr, ch_addralign, any_huge(m));
	case 2: return put(m, "compressed byte", at + sizeof(Elf64_Chdr) + structure_below(m, 64), 1, wide(m));
	default: return PUT(m, at, Elf64_Chdr, ch_size, chance(m, 2) ? any_huge(m) : extreme(m, GET(m, at, Elf64_Chdr, ch_size)));
	}
}

/* A field of the head of DWARF 5's line table, or an operation of its program. */
static bool line_table(struct mutant *m)
{
	uint64_t sh = section_like(m, 0, ".debug_line"), at = contents_of(m, sh, 64), size = GET(m, sh, Elf64_Shdr, sh_size);
	static const uint8_t widths[][2] = {{0, 4}, {4, 2}, {6, 1}, {7, 1}, {8, 4}, {12, 1}, {13, 1}, {14, 1}, {15, 1}, {16, 1}, {17, 1}, {30, 1}, {31, 1}};
	unsigned k = structure_below(m, COUNT(widths));

	if (!at)
		return false;
	if (chance(m, 2))
		return put(m, "line table", at + widths[k][0], widths[k][1], chance(m, 2) ? any_huge(m) : structure_below(m, 256));
	/* Extended operations, advances without end, and files that are none. */
	return put(m, "line program", at + 18 + structure_below(m, (uint32_t)(size < PAGE ? size - 26 : PAGE)), 1 + structure_below(m, 8),
	           chance(m, 2) ? 0xffffffffffffff00ull | structure_below(m, 13) : wide(m));
}

/* Units, abbreviations and the lists that attributes lead to: lengths, versions, forms (indirect, implicit, none), bases. */
static bool dwarf(struct mutant *m)
{
	static const char *const names[] = {".debug_info", ".debug_abbrev", ".debug_rnglists", ".debug_addr", ".debug_str_offsets", ".debug_loclists",
	                                    ".debug_aranges", ".debug_ranges", ".debug_line_str", ".debug_str"};
	static const uint8_t forms[] = {0x16, 0x21, 0x19, 0x0e, 0x1f, 0x23, 0x22, 0x20, 0x10, 0x13, 0x0a, 0x09, 0x01, 0x00, 0x7f, 0xff, 0x25, 0x1b, 0x2c};
	const char *name = names[structure_below(m, COUNT(names))];
	uint64_t sh = section_like(m, 0, name), at = contents_of(m, sh, 16), size = GET(m, sh, Elf64_Shdr, sh_size);

	if (!at)
		return false;
	if (!strcmp(name, ".debug_abbrev"))
		return put(m, "abbreviation", at + structure_below(m, (uint32_t)(size < PAGE ? size : PAGE)), 1, forms[structure_below(m, COUNT(forms))]);
	if (chance(m, 2))
		return put(m, "head of DWARF", at + structure_below(m, 12), 1 + structure_below(m, 4), chance(m, 2) ? any_huge(m) : structure_below(m, 8));
	return put(m, "DWARF", at + structure_below(m, (uint32_t)(size < PAGE ? size : PAGE)), 1 + structure_below(m, 4),
	           chance(m, 2) ? any_huge(m) : structure_below(m, (uint32_t)size));
}

/* Sections that name other files, or have one inside: made of whatever contents there are. */
static bool other_files(struct mutant *m)
{
	static const char *const names[] = {".gnu_debuglink", ".gnu_debugaltlink", ".gnu_debugdata", ".debug_sup", ".gdb_index", ".debug_names",
	                                    ".gnu.build.attributes", ".gnu.warning.f", ".ARM.attributes", ".stapsdt.base", ".note.stapsdt"};
	uint64_t strings = shdr(m, EH(m, e_shstrndx)), text = contents_of(m, strings, 2), size = GET(m, strings, Elf64_Shdr, sh_size), sh = any_section(m);
	const char *name = names[structure_below(m, COUNT(names))];
	uint8_t *p;

	if (!sh || !text || EH(m, e_shstrndx) >= section_count(m) || m->size > 1u << 20)
		return false;
	p = realloc(m->bytes, m->size + size + 32);
	if (!p)
		return false;
	m->bytes = p;
	memcpy(p + m->size, p + text, size);
	memset(p + m->size + size, 0, 32);
	memcpy(p + m->size + size, name, strlen(name));
	PUT(m, strings, Elf64_Shdr, sh_offset, m->size);
	PUT(m, strings, Elf64_Shdr, sh_size, size + 32);
	m->size += size + 32;
	said(m, name, sh, 0, 0);
	return PUT(m, sh, Elf64_Shdr, sh_name, size);
}

/* ---- unwind data -------------------------------------------------------------------------- */

/* .eh_frame_hdr in other encodings, counts that its table cannot have, and addresses out of order. */
static bool search_table(struct mutant *m)
{
	static const uint8_t encodings[] = {0x00, 0x01, 0x03, 0x09, 0x0b, 0x0c, 0x1b, 0x2b, 0x33, 0x3b, 0x3a, 0x3c, 0x4b, 0x50, 0x9b, 0xbb, 0xff};
	uint64_t sh = section_like(m, 0, ".eh_frame_hdr"), at = contents_of(m, sh, 12), size = GET(m, sh, Elf64_Shdr, sh_size);

	if (!at)
		return false;
	switch (structure_below(m, 4)) {
	case 0: return put(m, "its encodings", at + 1 + structure_below(m, 3), 1, encodings[structure_below(m, COUNT(encodings))]);
	case 1: return put(m, "its count", at + 8, 4, chance(m, 2) ? any_huge(m) : size / 8 + structure_below(m, 3) - 1);
	case 2: return bytes_swap(m, "its entries", at + 12 + structure_below(m, (uint32_t)size / 8) * 8, at + 12 + structure_below(m, (uint32_t)size / 8) * 8, 8);
	default: return put(m, "an entry", at + 12 + structure_below(m, (uint32_t)size / 4) * 4, 4, any_huge(m));
	}
}

/* Entries of .eh_frame with 64-bit lengths, FDEs that are their own CIE, and entries that begin within others. */
static bool frame_chain(struct mutant *m)
{
	uint64_t sh = section_like(m, 0, ".eh_frame"), at = contents_of(m, sh, 48), size = GET(m, sh, Elf64_Shdr, sh_size), to, skip, length;

	if (!at || !strcmp(name_of(m, sh), ".eh_frame_hdr"))
		return false;
	to = at;
	for (skip = structure_below(m, 8); skip; skip--) {
		length = get(m, to, 4);
		if (!length || length > at + size - to - 4 || at + size - to - length < 16)
			break;
		to += length + 4;
	}
	switch (structure_below(m, 4)) {
	case 0: return put(m, "long length", to, 4, 0xffffffff) && put(m, "its rest", to + 4, 8, chance(m, 2) ? any_huge(m) : structure_below(m, (uint32_t)size));
	case 1:
		if (chance(m, 3))
			return put(m, "its CIE", to + 4, 4, 4);
		return put(m, "its CIE", to + 4, 4, chance(m, 2) ? structure_below(m, (uint32_t)size) : any_huge(m));
	case 2: return put(m, "length", to, 4, 4 + structure_below(m, 16));
	default: return put(m, "instructions", to + 16 + structure_below(m, 16), 1 + structure_below(m, 8), wide(m));
	}
}

/* What a kernel's module says of itself: the release that it is for, its flags, and texts without an end. */
static bool module_texts(struct mutant *m)
{
	static const char *const texts[] = {"vermagic=6.12.", "vermagic=4.99.0", "vermagic=6.1.9", "vermagic=", "retpoline=Y", "Linux version 6.", "intree=Y", "6.12.0 SMP"};
	uint64_t sh = section_like(m, 0, ".modinfo"), at = contents_of(m, sh, 8), size = GET(m, sh, Elf64_Shdr, sh_size), by;
	const char *text = texts[structure_below(m, COUNT(texts))];

	if (!at)
		return false;
	if (chance(m, 4))
		return put(m, "last byte of .modinfo", at + size - 1, 1, '=');
	by = chance(m, 2) ? 0 : structure_below(m, (uint32_t)size);
	said(m, text, at + by, 0, 0);
	memcpy(m->bytes + at + by, text, strlen(text) < size - by ? strlen(text) : size - by);
	return true;
}

/* ---- archives --------------------------------------------------------------------------- */

/* Names by number into a table of names, of BSD before the contents, and tables of names in the place of members. */
static bool archive_long(struct mutant *m)
{
	static const char *const names[] = {"//", "/0", "/1", "/9999999999999", "#1/4294967295", "#1/60", "#1/1", "/", "/SYM64/", "/18446744073709551615"};
	uint64_t at = 8 + structure_below(m, (uint32_t)(m->size / 2)) / 2 * 2, size;
	const char *name = names[structure_below(m, COUNT(names))];
	char header[MEMBER + 1];

	if (!is_archive(m) || !holds(m, at, MEMBER))
		return false;
	size = 0;
	if (!chance(m, 3))
		size = chance(m, 2) ? m->size - at - MEMBER : structure_below(m, (uint32_t)m->size);
	snprintf(header, sizeof(header), "%-16.16s%-12s%-6s%-6s%-8s%-10" PRIu64 "`\n", name, "0", "0", "0", "644", size);
	said(m, "member made", at, 0, size);
	memcpy(m->bytes + at, header, MEMBER);
	if (chance(m, 2)) /* the first one too, so that it is found */
		memcpy(m->bytes + 8, header, 16);
	return true;
}

const struct structure_kind structure_of_claims[] = {
	{"headers-over", headers_over, false}, {"link-circle", link_circle, false}, {"section-numbers", section_numbers, false},
	{"group", group, false}, {"relr", relr, false}, {"versions", versions, false}, {"note-sizes", note_sizes, false},
	{"compressed", compressed, false}, {"line-table", line_table, false}, {"dwarf", dwarf, false}, {"other-files", other_files, false},
	{"search-table", search_table, false}, {"frame-chain", frame_chain, false}, {"module-texts", module_texts, false},
	{"archive-long", archive_long, true},
};
const unsigned structure_claim_kinds = COUNT(structure_of_claims);
