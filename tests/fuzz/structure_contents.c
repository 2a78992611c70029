/* SPDX-License-Identifier: MIT */
/* Structural mutants of tables and other contents of ELF files, and of archives. */
#include "structure_fields.h"

/* ---- tables --------------------------------------------------------------------------- */

static uint64_t dynamic_entry(struct mutant *m)
{
	return record_in(m, section_like(m, SHT_DYNAMIC, NULL), sizeof(Elf64_Dyn));
}

static bool dynamic_tag(struct mutant *m)
{
	uint64_t at = dynamic_entry(m);

	return at && PUT(m, at, Elf64_Dyn, d_tag, chance(m, 4) ? DT_FLAGS_1 : structure_below(m, 40));
}

static bool dynamic_value(struct mutant *m)
{
	uint64_t at = dynamic_entry(m);

	return at && PUT(m, at, Elf64_Dyn, d_un, chance(m, 2) ? extreme(m, GET(m, at, Elf64_Dyn, d_un))
	                                         : GET(m, any_section(m), Elf64_Shdr, sh_addr));
}

static bool dynamic_order(struct mutant *m)
{
	return bytes_swap(m, "dynamic entries swapped", dynamic_entry(m), dynamic_entry(m), sizeof(Elf64_Dyn));
}

static uint64_t any_symbol(struct mutant *m)
{
	uint64_t sh = section_like(m, chance(m, 3) ? SHT_DYNSYM : SHT_SYMTAB, NULL);

	return record_in(m, sh ? sh : section_like(m, SHT_DYNSYM, NULL), sizeof(Elf64_Sym));
}

static bool symbol_section(struct mutant *m)
{
	uint64_t at = any_symbol(m);

	return at && PUT(m, at, Elf64_Sym, st_shndx, number(m, GET(m, at, Elf64_Sym, st_shndx), section_count(m)));
}

static bool symbol_value(struct mutant *m)
{
	uint64_t at = any_symbol(m);

	return at && PUT(m, at, Elf64_Sym, st_value, chance(m, 2) ? extreme(m, GET(m, at, Elf64_Sym, st_value))
	                                             : GET(m, any_section(m), Elf64_Shdr, sh_addr) + structure_below(m, 64));
}

static bool symbol_size(struct mutant *m)
{
	uint64_t at = any_symbol(m);

	return at && PUT(m, at, Elf64_Sym, st_size, extreme(m, GET(m, at, Elf64_Sym, st_size)));
}

static bool symbol_name(struct mutant *m)
{
	uint64_t at = any_symbol(m), other = any_symbol(m);

	return at && PUT(m, at, Elf64_Sym, st_name, chance(m, 2) ? extreme(m, GET(m, at, Elf64_Sym, st_name))
	                                            : GET(m, other, Elf64_Sym, st_name) + structure_below(m, 4));
}

static bool symbol_kind(struct mutant *m)
{
	uint64_t at = any_symbol(m);

	return at && PUT(m, at, Elf64_Sym, st_info, ELF64_ST_INFO(structure_below(m, 4), structure_below(m, 12))) &&
	       (!chance(m, 4) || PUT(m, at, Elf64_Sym, st_other, structure_below(m, 256)));
}

static bool symbol_order(struct mutant *m)
{
	return bytes_swap(m, "symbols swapped", any_symbol(m), any_symbol(m), sizeof(Elf64_Sym));
}

static uint64_t any_reloc(struct mutant *m) { return record_in(m, section_like(m, SHT_RELA, NULL), sizeof(Elf64_Rela)); }

static bool reloc_offset(struct mutant *m)
{
	uint64_t at = any_reloc(m), other = any_reloc(m), to;

	if (!at)
		return false;
	if (chance(m, 3))
		to = GET(m, other, Elf64_Rela, r_offset) + structure_below(m, 9);
	else if (chance(m, 2))
		to = GET(m, any_section(m), Elf64_Shdr, sh_addr) + structure_below(m, 64);
	else
		to = extreme(m, GET(m, at, Elf64_Rela, r_offset));
	return PUT(m, at, Elf64_Rela, r_offset, to);
}

static bool reloc_symbol(struct mutant *m)
{
	uint64_t at = any_reloc(m);

	return at && put(m, "relocation's symbol", at + 12, 4, number(m, get(m, at + 12, 4), 16));
}

static bool reloc_type(struct mutant *m)
{
	uint64_t at = any_reloc(m);

	return at && put(m, "relocation's type", at + 8, 4, chance(m, 8) ? wide(m) : structure_below(m, 45));
}

static bool reloc_addend(struct mutant *m)
{
	uint64_t at = any_reloc(m);

	return at && PUT(m, at, Elf64_Rela, r_addend, chance(m, 2) ? extreme(m, GET(m, at, Elf64_Rela, r_addend))
	                                              : GET(m, any_section(m), Elf64_Shdr, sh_addr) + structure_below(m, 64));
}

/* ---- contents ------------------------------------------------------------------------- */

/* A word of a section's contents; `head`: rather one of its first. */
static bool word_in(struct mutant *m, const char *what, uint64_t sh, unsigned head)
{
	uint64_t offset = GET(m, sh, Elf64_Shdr, sh_offset), size = GET(m, sh, Elf64_Shdr, sh_size), at;
	const unsigned widths[] = {1, 2, 4, 4, 4, 8};
	unsigned width = widths[structure_below(m, COUNT(widths))];

	if (!sh || !holds(m, offset, size) || size < width)
		return false;
	if (head && chance(m, 2))
		size = size < head ? size : head;
	at = offset + structure_below(m, (uint32_t)size);
	if (width > 1 && !chance(m, 4))
		at -= (at - offset) % (width > 4 ? 4 : width);
	return put(m, what, at, width, width == 1 && chance(m, 2) ? wide(m) : extreme(m, get(m, at, width)));
}

static bool notes(struct mutant *m) { return word_in(m, "note", section_like(m, SHT_NOTE, NULL), 16); }
static bool eh_frame_hdr(struct mutant *m) { return word_in(m, ".eh_frame_hdr", section_like(m, 0, ".eh_frame_hdr"), 12); }
static bool lsda(struct mutant *m) { return word_in(m, "LSDA", section_like(m, 0, ".gcc_except_table"), 8); }
static bool ex_table(struct mutant *m) { return word_in(m, "__ex_table", section_like(m, 0, "__ex_table"), 0); }
static bool pclntab(struct mutant *m) { return word_in(m, ".gopclntab", section_like(m, 0, ".gopclntab"), 72); }

/* A field of one entry: its length, which CIE, where, how long; or any byte of it. */
static bool eh_frame(struct mutant *m)
{
	uint64_t sh = section_like(m, 0, ".eh_frame"), at, end, length, skip = structure_below(m, 12);
	const unsigned fields[] = {0, 4, 8, 12, 16};

	at = GET(m, sh, Elf64_Shdr, sh_offset);
	end = at + GET(m, sh, Elf64_Shdr, sh_size);
	if (!sh || end > m->size || !strcmp(name_of(m, sh), ".eh_frame_hdr"))
		return false;
	for (; skip; skip--) {
		length = get(m, at, 4);
		if (!length || length > end - at || end - at - length < 8)
			break;
		at += length + 4;
	}
	if (chance(m, 3))
		return put(m, ".eh_frame's byte", at + structure_below(m, 40), 1, wide(m));
	at += fields[structure_below(m, COUNT(fields))];
	return put(m, ".eh_frame", at, 4, chance(m, 2) ? extreme(m, get(m, at, 4)) : get(m, at, 4) + structure_below(m, 17) - 8);
}

static bool etch_tables(struct mutant *m)
{
	static const char *const own[] = {"__imv", "__pv", "__etch_obj", "__etch_mod", "__etch", "etched", ".etch.unwind", ".etch.source"};

	return word_in(m, "etch's table", section_like(m, 0, own[structure_below(m, COUNT(own))]), 64);
}

static bool etch_undo(struct mutant *m) { return word_in(m, ".etch.undo", section_like(m, 0, ".etch.undo"), 64); }

static bool orc_tables(struct mutant *m) { return word_in(m, "ORC table", section_like(m, 0, ".orc_"), 8); }

static bool kernel_tables(struct mutant *m)
{
	static const char *const own[] = {".altinstructions", "__jump_table", ".static_call_sites", ".smp_locks", "__bug_table", ".modinfo",
	                                  ".parainstructions", "__mcount_loc", ".retpoline_sites", "__ksymtab"};

	return word_in(m, "kernel's table", section_like(m, 0, own[structure_below(m, COUNT(own))]), 0);
}

static bool code(struct mutant *m) { return word_in(m, "code", section_like(m, 0, chance(m, 4) ? ".plt" : ".text"), 0); }

static bool contents(struct mutant *m)
{
	uint64_t sh = any_section(m);

	return sh && GET(m, sh, Elf64_Shdr, sh_type) != SHT_NOBITS && word_in(m, "contents", sh, 32);
}

static bool groups(struct mutant *m)
{
	const uint32_t kinds[] = {SHT_GROUP, SHT_SYMTAB_SHNDX, SHT_GNU_versym, SHT_GNU_verneed, SHT_GNU_HASH, SHT_INIT_ARRAY, SHT_RELR};

	return word_in(m, "indices", section_like(m, kinds[structure_below(m, COUNT(kinds))], NULL), 8);
}

/* Nothing is behind; or something is, that no header tells of. */
static bool file_end(struct mutant *m)
{
	uint32_t more = 1 + structure_below(m, 64);
	uint8_t *p;

	if (m->size < 128)
		return false;
	said(m, "file's end", m->size, more, 0);
	if (chance(m, 2)) {
		m->size -= more;
		return true;
	}
	p = realloc(m->bytes, m->size + more);
	if (!p)
		return false;
	m->bytes = p;
	memset(p + m->size, 0x5a, more);
	m->size += more;
	return true;
}

/* ---- archives ------------------------------------------------------------------------- */

static uint64_t any_member(struct mutant *m)
{
	uint64_t at = 8, skip = structure_below(m, 6), next;
	char size[11] = "";

	for (; skip && is_archive(m); skip--) {
		memcpy(size, m->bytes + at + 48, 10);
		next = at + MEMBER + (strtoull(size, NULL, 10) + 1) / 2 * 2;
		if (next <= at || next > m->size - MEMBER)
			break;
		at = next;
	}
	return is_archive(m) ? at : 0;
}

static bool archive_size(struct mutant *m)
{
	static const char *const sizes[] = {"0", "1", "60", "9999999999", "-1", "x", "4294967295", "2147483648", "1e3", "          "};
	uint64_t at = any_member(m);
	char text[11];

	if (!at)
		return false;
	snprintf(text, sizeof(text), "%-10s", sizes[structure_below(m, COUNT(sizes))]);
	said(m, text, at + 48, 0, 0);
	memcpy(m->bytes + at + 48, text, 10);
	return true;
}

static bool archive_name(struct mutant *m)
{
	static const char *const own[] = {"/", "//", "/0", "/99999999", "#1/20", "#1/9999999999", "/SYM64/", "__.SYMDEF", "../x/", "/-1", "a/b/", ""};
	uint64_t at = any_member(m);
	char text[17];

	if (!at)
		return false;
	snprintf(text, sizeof(text), "%-16s", own[structure_below(m, COUNT(own))]);
	said(m, text, at, 0, 0);
	memcpy(m->bytes + at, text, 16);
	return true;
}

static bool archive_byte(struct mutant *m)
{
	uint64_t at = any_member(m);

	return at && put(m, "member's header", at + structure_below(m, MEMBER + 16), 1, wide(m));
}

static bool archive_order(struct mutant *m)
{
	return bytes_swap(m, "members' headers swapped", any_member(m), any_member(m), MEMBER);
}

static bool archive_thin(struct mutant *m)
{
	return is_archive(m) && put(m, "magic", 2, 4, get(m, 2, 4) == 0x68637261 ? 0x6e696874 : 0x68637261);
}

const struct structure_kind structure_of_contents[] = {
	{"dynamic-tag", dynamic_tag, false}, {"dynamic-value", dynamic_value, false},
	{"dynamic-order", dynamic_order, false}, {"symbol-section", symbol_section, false},
	{"symbol-value", symbol_value, false}, {"symbol-size", symbol_size, false}, {"symbol-name", symbol_name, false},
	{"symbol-kind", symbol_kind, false}, {"symbol-order", symbol_order, false}, {"reloc-offset", reloc_offset, false},
	{"reloc-symbol", reloc_symbol, false}, {"reloc-type", reloc_type, false}, {"reloc-addend", reloc_addend, false},
	{"note", notes, false}, {"eh-frame-hdr", eh_frame_hdr, false}, {"eh-frame", eh_frame, false}, {"lsda", lsda, false},
	{"ex-table", ex_table, false}, {"pclntab", pclntab, false}, {"etch-table", etch_tables, false},
	{"etch-undo", etch_undo, false}, {"orc-table", orc_tables, false}, {"kernel-table", kernel_tables, false},
	{"code", code, false}, {"contents", contents, false}, {"index", groups, false}, {"file-end", file_end, false},
	{"archive-size", archive_size, true}, {"archive-name", archive_name, true}, {"archive-byte", archive_byte, true},
	{"archive-order", archive_order, true}, {"archive-thin", archive_thin, true},
};
const unsigned structure_content_kinds = COUNT(structure_of_contents);
