/* SPDX-License-Identifier: MIT */
/*
 * Structural mutants whose headers agree with one another and describe what no linker lays out so, and tables of which
 * one part takes the place of another: they get further into etch than what contradicts itself.
 */
#include "structure_fields.h"

#define SEGMENTS_MOST 64u
#define PAGE 4096u

static const char *const tables[] = {
	".sframe", "__etch_mark", "__etch_branch", "__imv", "__pv_sites", "__etch_obj", "__ex_table", ".etch.unwind", ".etch.undo",
	".orc_unwind", ".orc_unwind_ip", ".orc_lookup", ".note.etch", ".eh_frame", ".eh_frame_hdr", ".gcc_except_table", ".rela",
	"__jump_table", ".discard", ".static_call_sites", ".dynamic", ".symtab", ".dynsym", ".gopclntab", ".rodata", ".debug_"};

static uint64_t any_table(struct mutant *m)
{
	return section_like(m, 0, tables[structure_below(m, COUNT(tables))]);
}

/* ---- layout --------------------------------------------------------------------------- */

/* Makes `more` bytes of space at an offset and moves every header's offset after it along. False: out of memory. */
static bool space_insert(struct mutant *m, uint64_t at, uint64_t more)
{
	uint64_t i, n = section_count(m), p = phdr_count(m), shoff = EH(m, e_shoff), phoff = EH(m, e_phoff);
	uint8_t *bytes = realloc(m->bytes, m->size + more);

	if (!bytes)
		return false;
	m->bytes = bytes;
	said(m, "space made", at, m->size, m->size + more);
	memmove(bytes + at + more, bytes + at, m->size - at);
	memset(bytes + at, 0xcc, more);
	m->size += more;
	if (shoff >= at)
		EH_PUT(m, e_shoff, shoff + more);
	if (phoff >= at)
		EH_PUT(m, e_phoff, phoff + more);
	for (i = 0; i < n && i < SCAN_MOST; i++)
		if (GET(m, shdr(m, i), Elf64_Shdr, sh_offset) >= at)
			PUT(m, shdr(m, i), Elf64_Shdr, sh_offset, GET(m, shdr(m, i), Elf64_Shdr, sh_offset) + more);
	for (i = 0; i < p && i < SEGMENTS_MOST; i++)
		if (GET(m, phdr(m, i), Elf64_Phdr, p_offset) >= at)
			PUT(m, phdr(m, i), Elf64_Phdr, p_offset, GET(m, phdr(m, i), Elf64_Phdr, p_offset) + more);
	return true;
}

/* Everything from one section on lies further after, by pages or by less. */
static bool layout_gap(struct mutant *m)
{
	uint64_t sh = any_section(m), at = GET(m, sh, Elf64_Shdr, sh_offset);

	return sh && at > sizeof(Elf64_Ehdr) && at < m->size && m->size < 1u << 20 &&
	       space_insert(m, at, chance(m, 2) ? PAGE * (1 + structure_below(m, 3)) : 8 * (1 + structure_below(m, 64)));
}

/* Program headers at the file's end, in a segment of their own or in none, and more of them: copies of others, elsewhere. */
static bool segment_added(struct mutant *m)
{
	uint64_t n = phdr_count(m), to = (m->size + PAGE - 1) & ~(uint64_t)(PAGE - 1), more = 1 + structure_below(m, 4), i, top = 0;
	uint8_t *p;

	if (!n || n > SEGMENTS_MOST || m->size > 1u << 20)
		return false;
	p = realloc(m->bytes, to + (n + more) * sizeof(Elf64_Phdr));
	if (!p)
		return false;
	m->bytes = p;
	memset(p + m->size, 0, to + (n + more) * sizeof(Elf64_Phdr) - m->size);
	memcpy(p + to, p + EH(m, e_phoff), n * sizeof(Elf64_Phdr));
	m->size = to + (n + more) * sizeof(Elf64_Phdr);
	EH_PUT(m, e_phoff, to);
	EH_PUT(m, e_phnum, n + more);
	for (i = 0; i < n; i++) {
		uint64_t end = GET(m, phdr(m, i), Elf64_Phdr, p_vaddr) + GET(m, phdr(m, i), Elf64_Phdr, p_memsz);

		top = GET(m, phdr(m, i), Elf64_Phdr, p_type) == PT_LOAD && end > top ? end : top;
	}
	for (i = n; i < n + more; i++) {
		top = (top + PAGE - 1) & ~(uint64_t)(PAGE - 1);
		memcpy(m->bytes + phdr(m, i), m->bytes + phdr(m, structure_below(m, (uint32_t)n)), sizeof(Elf64_Phdr));
		if (i == n || chance(m, 2)) {
			PUT(m, phdr(m, i), Elf64_Phdr, p_type, PT_LOAD);
			PUT(m, phdr(m, i), Elf64_Phdr, p_vaddr, top);
			PUT(m, phdr(m, i), Elf64_Phdr, p_offset, i == n ? to : structure_below(m, (uint32_t)(to / PAGE)) * (uint64_t)PAGE);
			PUT(m, phdr(m, i), Elf64_Phdr, p_filesz, i == n ? (n + more) * sizeof(Elf64_Phdr) : structure_below(m, PAGE));
			PUT(m, phdr(m, i), Elf64_Phdr, p_memsz, PAGE);
			PUT(m, phdr(m, i), Elf64_Phdr, p_align, PAGE);
			top += PAGE;
		}
	}
	return true;
}

/* A section ends early, and one with another name, further on in the table, has the rest of it; between two instructions
 * or within one. */
static bool section_split(struct mutant *m)
{
	uint64_t sh = chance(m, 2) ? section_like(m, 0, ".text") : any_section(m), to = any_section(m), size, by;

	if (!sh || sh == to || GET(m, sh, Elf64_Shdr, sh_type) == SHT_NOBITS)
		return false;
	size = GET(m, sh, Elf64_Shdr, sh_size);
	if (size < 2 || size > m->size)
		return false;
	by = 1 + structure_below(m, (uint32_t)size - 1);
	PUT(m, to, Elf64_Shdr, sh_type, GET(m, sh, Elf64_Shdr, sh_type));
	PUT(m, to, Elf64_Shdr, sh_flags, GET(m, sh, Elf64_Shdr, sh_flags));
	PUT(m, to, Elf64_Shdr, sh_addr, EH(m, e_type) == ET_REL ? 0 : GET(m, sh, Elf64_Shdr, sh_addr) + by);
	PUT(m, to, Elf64_Shdr, sh_offset, GET(m, sh, Elf64_Shdr, sh_offset) + by);
	PUT(m, to, Elf64_Shdr, sh_size, size - by);
	return PUT(m, sh, Elf64_Shdr, sh_size, by);
}

/* As sstrip leaves files: no section headers, or only their table's place. */
static bool sections_gone(struct mutant *m)
{
	if (!section_count(m))
		return false;
	EH_PUT(m, e_shnum, 0);
	EH_PUT(m, e_shstrndx, 0);
	return chance(m, 3) || EH_PUT(m, e_shoff, 0);
}

/* Code and data change places in memory: all addresses of one section, its segment and its symbols are others. */
static bool address_moved(struct mutant *m)
{
	uint64_t sh = any_section(m), from = GET(m, sh, Elf64_Shdr, sh_addr), size = GET(m, sh, Elf64_Shdr, sh_size), i;
	uint64_t sym = section_like(m, SHT_SYMTAB, NULL), at = GET(m, sym, Elf64_Shdr, sh_offset), by = PAGE * (1 + structure_below(m, 1u << 20));

	if (!sh || !from || EH(m, e_type) == ET_REL)
		return false;
	PUT(m, sh, Elf64_Shdr, sh_addr, from + by);
	for (i = 0; i < phdr_count(m) && i < SEGMENTS_MOST; i++)
		if (GET(m, phdr(m, i), Elf64_Phdr, p_vaddr) == (from & ~(uint64_t)(PAGE - 1)))
			PUT(m, phdr(m, i), Elf64_Phdr, p_vaddr, GET(m, phdr(m, i), Elf64_Phdr, p_vaddr) + by);
	for (i = 0; sym && i < GET(m, sym, Elf64_Shdr, sh_size) / sizeof(Elf64_Sym) && i < SCAN_MOST; i++)
		if (GET(m, at + i * sizeof(Elf64_Sym), Elf64_Sym, st_value) - from < size)
			PUT(m, at + i * sizeof(Elf64_Sym), Elf64_Sym, st_value, GET(m, at + i * sizeof(Elf64_Sym), Elf64_Sym, st_value) + by);
	return true;
}

/* ---- tables ----------------------------------------------------------------------------- */

/* Some bytes of a table are those of another part of it: entries twice, headers among entries. */
static bool table_copied(struct mutant *m)
{
	const unsigned sizes[] = {4, 6, 8, 12, 16, 20, 24, 44, 64};
	uint64_t sh = any_table(m), offset = GET(m, sh, Elf64_Shdr, sh_offset), size = GET(m, sh, Elf64_Shdr, sh_size);
	unsigned n = sizes[structure_below(m, COUNT(sizes))];
	uint64_t from, to;

	if (!sh || size < 2 * n || !holds(m, offset, size))
		return false;
	from = offset + structure_below(m, (uint32_t)(size - n + 1)) / 4 * 4;
	to = offset + structure_below(m, (uint32_t)(size - n + 1)) / 4 * 4;
	said(m, "part of a table copied", to, from, n);
	memmove(m->bytes + to, m->bytes + from, n);
	return true;
}

/* A field of the tables that came last, or one of those that etch reads beside its own. */
static bool table_word(struct mutant *m)
{
	uint64_t sh = any_table(m), offset = GET(m, sh, Elf64_Shdr, sh_offset), size = GET(m, sh, Elf64_Shdr, sh_size), at;
	const unsigned widths[] = {1, 2, 4, 4, 8};
	unsigned width = widths[structure_below(m, COUNT(widths))];

	if (!sh || !holds(m, offset, size) || size < width)
		return false;
	at = offset + structure_below(m, (uint32_t)(chance(m, 2) && size > 64 ? 64 : size - width + 1));
	at -= chance(m, 4) ? 0 : (at - offset) % width;
	return put(m, "table's field", at, width, chance(m, 3) ? wide(m) : extreme(m, get(m, at, width)));
}

/* Encodings of pointers and letters of augmentations, where a CIE may have them; other CIEs. */
static bool cie_letters(struct mutant *m)
{
	static const uint8_t encodings[] = {0x00, 0x0b, 0x10, 0x1b, 0x1c, 0x2b, 0x3b, 0x50, 0x9b, 0x9c, 0xdb, 0xff, 0x01, 0x09, 0x19, 0x80};
	static const char letters[] = "zRLPSBGeh";
	uint64_t sh = section_like(m, 0, ".eh_frame"), at = GET(m, sh, Elf64_Shdr, sh_offset);

	if (!sh || !holds(m, at, 40) || !strcmp(name_of(m, sh), ".eh_frame_hdr"))
		return false;
	if (chance(m, 2))
		return put(m, "CIE's letter", at + 9 + structure_below(m, 5), 1, (uint8_t)letters[structure_below(m, sizeof(letters))]);
	return put(m, "CIE's encoding", at + 12 + structure_below(m, 14), 1, encodings[structure_below(m, COUNT(encodings))]);
}

/* Properties of the program (.note.gnu.property, .note.etch): sizes, types, and records that overlap. */
static bool property(struct mutant *m)
{
	uint64_t sh = section_like(m, 0, chance(m, 3) ? ".note.etch" : ".note.gnu.property"), at = GET(m, sh, Elf64_Shdr, sh_offset);
	const uint64_t types[] = {0xc0000002, 0xc0008002, 0xc0010001, 5, 1, 3};
	uint64_t size = GET(m, sh, Elf64_Shdr, sh_size);

	if (!sh || size < 16 || size > 1u << 20)
		return false;
	if (chance(m, 3))
		return put(m, "property's type", at + 4 * structure_below(m, (uint32_t)size / 4), 4, types[structure_below(m, COUNT(types))]);
	return put(m, "property's size", at + 4 * structure_below(m, (uint32_t)size / 4), 4, structure_below(m, 2 * (uint32_t)size));
}

/* Hash tables and versions: counts, chains and links that go on for ever. */
static bool symbol_lookup(struct mutant *m)
{
	const uint32_t kinds[] = {SHT_HASH, SHT_GNU_HASH, SHT_GNU_verdef, SHT_GNU_verneed, SHT_GNU_versym};
	uint64_t sh = section_like(m, kinds[structure_below(m, COUNT(kinds))], NULL), size = GET(m, sh, Elf64_Shdr, sh_size);

	if (!sh || size < 8 || size > 1u << 20)
		return false;
	return put(m, "hash or version", GET(m, sh, Elf64_Shdr, sh_offset) + 4 * structure_below(m, (uint32_t)size / 4), 4,
	           chance(m, 2) ? structure_below(m, 64) : extreme(m, size));
}

/* Strings without an end, and names that are one. */
static bool strings_joined(struct mutant *m)
{
	uint64_t sh = section_like(m, SHT_STRTAB, NULL), at = GET(m, sh, Elf64_Shdr, sh_offset), size = GET(m, sh, Elf64_Shdr, sh_size), i, n = 0;

	if (!sh || !holds(m, at, size))
		return false;
	if (chance(m, 4))
		return put(m, "last byte of strings", at + size - 1, 1, 'x');
	for (i = at + 1; i + 1 < at + size; i++)
		if (!m->bytes[i] && chance(m, 3)) {
			m->bytes[i] = chance(m, 8) ? 0x1b : '_';
			n++;
		}
	said(m, "strings joined", at, 0, n);
	return n;
}

/* A tag stands twice, or the table has no end. */
static bool dynamic_twice(struct mutant *m)
{
	uint64_t sh = section_like(m, SHT_DYNAMIC, NULL), n = GET(m, sh, Elf64_Shdr, sh_size) / sizeof(Elf64_Dyn), at = GET(m, sh, Elf64_Shdr, sh_offset);
	uint64_t from, to;

	if (!sh || n < 2 || n > SCAN_MOST || !holds(m, at, n * sizeof(Elf64_Dyn)))
		return false;
	from = at + structure_below(m, (uint32_t)n) * sizeof(Elf64_Dyn);
	to = at + structure_below(m, (uint32_t)n) * sizeof(Elf64_Dyn);
	if (from == to)
		return false;
	said(m, "dynamic entry copied", to, from, 0);
	memcpy(m->bytes + to, m->bytes + from, sizeof(Elf64_Dyn));
	return !chance(m, 3) || PUT(m, to, Elf64_Dyn, d_un, extreme(m, GET(m, to, Elf64_Dyn, d_un)));
}

/* Two relocations of one place, in whichever order. */
static bool reloc_twice(struct mutant *m)
{
	uint64_t sh = section_like(m, SHT_RELA, NULL), from = record_in(m, sh, sizeof(Elf64_Rela)), to = record_in(m, sh, sizeof(Elf64_Rela));

	if (!from || from == to)
		return false;
	said(m, "relocation copied", to, from, 0);
	memcpy(m->bytes + to, m->bytes + from, sizeof(Elf64_Rela));
	return put(m, "its type", to + 8, 4, chance(m, 2) ? get(m, to + 8, 4) : structure_below(m, 45));
}

/* ---- archives --------------------------------------------------------------------------- */

/* An archive within an archive, and one that is its own member. */
static bool archive_inside(struct mutant *m)
{
	uint64_t at = 8 + MEMBER + structure_below(m, (uint32_t)(m->size - 8 - MEMBER)) / 2 * 2, n;

	if (!is_archive(m) || at >= m->size)
		return false;
	n = m->size - at < 512 ? m->size - at : 512;
	said(m, "archive within", at, 0, n);
	memmove(m->bytes + at, m->bytes, n);
	return true;
}

const struct structure_kind structure_of_layout[] = {
	{"layout-gap", layout_gap, false}, {"segment-added", segment_added, false}, {"section-split", section_split, false},
	{"sections-gone", sections_gone, false}, {"address-moved", address_moved, false}, {"table-copied", table_copied, false},
	{"table-word", table_word, false}, {"cie-letters", cie_letters, false}, {"property", property, false},
	{"symbol-lookup", symbol_lookup, false}, {"strings-joined", strings_joined, false}, {"dynamic-twice", dynamic_twice, false},
	{"reloc-twice", reloc_twice, false}, {"archive-inside", archive_inside, true},
};
const unsigned structure_layout_kinds = COUNT(structure_of_layout);
