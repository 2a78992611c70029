/* SPDX-License-Identifier: MIT */
/* Structural mutants of the file header, section headers and program headers. */
#include "structure_fields.h"

#define ADDED_MOST 12u /* section headers added at once */

/* ---- section headers ------------------------------------------------------------------ */

static const uint32_t types[] = {SHT_NULL, SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_HASH, SHT_DYNAMIC, SHT_NOTE,
                                 SHT_NOBITS, SHT_NOBITS, SHT_REL, SHT_DYNSYM, SHT_INIT_ARRAY, SHT_FINI_ARRAY, SHT_PREINIT_ARRAY,
                                 SHT_GROUP, SHT_SYMTAB_SHNDX, SHT_RELR, SHT_GNU_HASH, SHT_GNU_verdef, SHT_GNU_verneed,
                                 SHT_GNU_versym, 0x70000001, 0x6fff4c00, 0xffffffff};

static bool section_type(struct mutant *m)
{
	uint64_t sh = any_section(m);

	return sh && PUT(m, sh, Elf64_Shdr, sh_type, types[structure_below(m, COUNT(types))]);
}

/* A size without contents that goes over other sections: over code. */
static bool section_nobits(struct mutant *m)
{
	const uint64_t sizes[] = {1ull << 47, 1ull << 31, 0x10000, 0x1000, ~0ull, 1ull << 63};
	uint64_t sh = any_section(m);

	if (!sh || !PUT(m, sh, Elf64_Shdr, sh_type, SHT_NOBITS))
		return false;
	if (!chance(m, 4))
		PUT(m, sh, Elf64_Shdr, sh_size, sizes[structure_below(m, COUNT(sizes))]);
	if (chance(m, 3))
		PUT(m, sh, Elf64_Shdr, sh_addr, chance(m, 2) ? 0x10 : extreme(m, GET(m, sh, Elf64_Shdr, sh_addr)));
	if (chance(m, 4))
		PUT(m, sh, Elf64_Shdr, sh_flags, GET(m, sh, Elf64_Shdr, sh_flags) | SHF_EXECINSTR | SHF_ALLOC);
	return true;
}

static bool section_size(struct mutant *m)
{
	uint64_t sh = any_section(m), offset = GET(m, sh, Elf64_Shdr, sh_offset);

	return sh && PUT(m, sh, Elf64_Shdr, sh_size, chance(m, 3) && offset <= m->size ? m->size - offset
	                                             : extreme(m, GET(m, sh, Elf64_Shdr, sh_size)));
}

static bool section_address(struct mutant *m)
{
	uint64_t sh = any_section(m), other = any_section(m), to;

	if (!sh)
		return false;
	to = GET(m, other, Elf64_Shdr, sh_addr);
	if (!chance(m, 3))
		to = chance(m, 2) ? to + extreme(m, GET(m, sh, Elf64_Shdr, sh_size)) : extreme(m, GET(m, sh, Elf64_Shdr, sh_addr));
	return PUT(m, sh, Elf64_Shdr, sh_addr, to);
}

static bool section_offset(struct mutant *m)
{
	uint64_t sh = any_section(m), other = any_section(m), to;

	if (!sh)
		return false;
	if (chance(m, 4))
		to = EH(m, e_shoff);
	else
		to = chance(m, 4) ? EH(m, e_phoff) : GET(m, other, Elf64_Shdr, sh_offset);
	return PUT(m, sh, Elf64_Shdr, sh_offset, chance(m, 3) ? extreme(m, GET(m, sh, Elf64_Shdr, sh_offset)) : to + structure_below(m, 16));
}

/* One takes another's place, or part of it: in memory, in the file, or both. */
static bool section_overlap(struct mutant *m)
{
	uint64_t sh = any_section(m), other = any_section(m), size = GET(m, other, Elf64_Shdr, sh_size), by, how;
	uint32_t most = size < 1u << 20 ? (uint32_t)size : 1u << 20;

	if (!sh || sh == other)
		return false;
	by = most ? structure_below(m, most) : 0;
	how = structure_below(m, 3);
	if (how != 1)
		PUT(m, sh, Elf64_Shdr, sh_addr, GET(m, other, Elf64_Shdr, sh_addr) + by);
	if (how != 0)
		PUT(m, sh, Elf64_Shdr, sh_offset, GET(m, other, Elf64_Shdr, sh_offset) + by);
	if (chance(m, 2))
		PUT(m, sh, Elf64_Shdr, sh_size, chance(m, 2) ? size - by : size);
	if (chance(m, 3))
		PUT(m, sh, Elf64_Shdr, sh_flags, GET(m, other, Elf64_Shdr, sh_flags));
	return true;
}

static bool section_link(struct mutant *m)
{
	uint64_t sh = any_section(m);

	return sh && PUT(m, sh, Elf64_Shdr, sh_link, number(m, GET(m, sh, Elf64_Shdr, sh_link), section_count(m)));
}

static bool section_info(struct mutant *m)
{
	uint64_t sh = any_section(m);

	return sh && PUT(m, sh, Elf64_Shdr, sh_info, number(m, GET(m, sh, Elf64_Shdr, sh_info), section_count(m)));
}

static bool section_entsize(struct mutant *m)
{
	const uint64_t sizes[] = {0, 1, 2, 3, 4, 8, 12, 16, 23, 24, 25, 64, 1ull << 32, ~0ull};
	uint64_t sh = any_section(m);

	return sh && PUT(m, sh, Elf64_Shdr, sh_entsize, sizes[structure_below(m, COUNT(sizes))]);
}

static bool section_flags(struct mutant *m)
{
	const uint64_t flags[] = {SHF_ALLOC, SHF_WRITE, SHF_EXECINSTR, SHF_EXECINSTR | SHF_ALLOC, SHF_TLS, SHF_MERGE, SHF_STRINGS,
	                          SHF_LINK_ORDER, SHF_GROUP, SHF_COMPRESSED, SHF_EXCLUDE, SHF_INFO_LINK, SHF_GNU_RETAIN, 0x10000000};
	uint64_t sh = any_section(m);

	return sh && PUT(m, sh, Elf64_Shdr, sh_flags, GET(m, sh, Elf64_Shdr, sh_flags) ^ flags[structure_below(m, COUNT(flags))]);
}

static bool section_align(struct mutant *m)
{
	uint64_t sh = any_section(m);

	return sh && PUT(m, sh, Elf64_Shdr, sh_addralign, chance(m, 4) ? wide(m) : 1ull << structure_below(m, 64));
}

static bool section_order(struct mutant *m)
{
	return bytes_swap(m, "headers swapped", any_section(m), any_section(m), sizeof(Elf64_Shdr));
}

/* Two sections of one name; or this one is that one. */
static bool section_copy(struct mutant *m)
{
	uint64_t sh = any_section(m), other = any_section(m);

	if (!sh || sh == other)
		return false;
	said(m, "header copied", sh, other, sh);
	memmove(m->bytes + sh, m->bytes + other, sizeof(Elf64_Shdr));
	return true;
}

static const char *const names[] = {
	".text", ".plt", ".plt.sec", ".rodata", ".data", ".bss", ".eh_frame", ".eh_frame_hdr", ".gcc_except_table", ".got",
	".got.plt", ".dynamic", ".dynsym", ".symtab", ".strtab", ".init_array", ".note.gnu.property", ".note.gnu.build-id",
	".gopclntab", ".modinfo", ".orc_unwind", ".orc_unwind_ip", ".orc_lookup", ".orc_header", "__ex_table", "__imv",
	"__pv_sites", "__pv_native", "__pv_inline", "__etch_obj", "__etch_mod", "__etch_names", ".etch.unwind", ".etch.undo", ".etch.x",
	"etched", "etched_imv", "etched_dense", "__jump_table", "__bug_table", ".altinstructions", "__ksymtab", ".static_call_sites",
	"__mcount_loc", ".debug_info", ".debug_line", ".zdebug_info", ".group", ".rela.text", ".init", ".fini", ".data.rel.ro.gopclntab"};

/* The name of another, or one that means something, written over the one that was. */
static bool section_name(struct mutant *m)
{
	uint64_t sh = any_section(m), other = any_section(m), at;
	const char *name = names[structure_below(m, COUNT(names))];
	size_t was;

	if (!sh)
		return false;
	switch (structure_below(m, 4)) {
	case 0: return PUT(m, sh, Elf64_Shdr, sh_name, GET(m, other, Elf64_Shdr, sh_name));
	case 1: return PUT(m, sh, Elf64_Shdr, sh_name, extreme(m, GET(m, sh, Elf64_Shdr, sh_name)));
	default:
		was = strlen(name_of(m, sh));
		at = (uint64_t)((const uint8_t *)name_of(m, sh) - m->bytes);
		if (!was || at >= m->size || strlen(name) > was)
			return false;
		said(m, name, at, was, strlen(name));
		memcpy(m->bytes + at, name, strlen(name) + 1);
		return true;
	}
}

static bool section_number(struct mutant *m)
{
	uint64_t n = section_count(m);

	if (chance(m, 3))
		return PUT(m, shdr(m, 0), Elf64_Shdr, sh_size, number(m, n, n)) && EH_PUT(m, e_shnum, 0);
	return EH_PUT(m, e_shnum, number(m, EH(m, e_shnum), n));
}

static bool section_strings(struct mutant *m)
{
	uint64_t n = section_count(m);

	if (chance(m, 3))
		return PUT(m, shdr(m, 0), Elf64_Shdr, sh_link, number(m, n, n)) && EH_PUT(m, e_shstrndx, SHN_XINDEX);
	return EH_PUT(m, e_shstrndx, number(m, EH(m, e_shstrndx), n));
}

/* Section 0 has no contents, whatever it says. */
static bool section_null(struct mutant *m)
{
	uint64_t sh = shdr(m, 0), other = any_section(m);

	if (!other)
		return false;
	if (chance(m, 2)) {
		said(m, "header copied to section 0", other, 0, 0);
		memmove(m->bytes + sh, m->bytes + other, sizeof(Elf64_Shdr));
		return true;
	}
	return PUT(m, sh, Elf64_Shdr, sh_type, types[structure_below(m, COUNT(types))]) &&
	       PUT(m, sh, Elf64_Shdr, sh_offset, extreme(m, 0)) && PUT(m, sh, Elf64_Shdr, sh_size, extreme(m, 0));
}

/* The headers go to the file's end, with more of them: copies of others under names that mean something, each
 * changed. */
static bool section_added(struct mutant *m)
{
	uint64_t n = section_count(m), table = n * sizeof(Elf64_Shdr), strings = shdr(m, EH(m, e_shstrndx)), more, i;
	uint64_t str_at = GET(m, strings, Elf64_Shdr, sh_offset), str_size = GET(m, strings, Elf64_Shdr, sh_size), to, text;
	uint8_t *p;

	if (n < 2 || n > SCAN_MOST || EH(m, e_shstrndx) >= n || !holds(m, EH(m, e_shoff), table) || !holds(m, str_at, str_size))
		return false;
	more = 1 + structure_below(m, ADDED_MOST);
	to = (m->size + 7) & ~7ull;
	text = to + table + more * sizeof(Elf64_Shdr);
	p = realloc(m->bytes, text + str_size + more * 32);
	if (!p)
		return false;
	m->bytes = p;
	memset(p + m->size, 0, text + str_size + more * 32 - m->size);
	memcpy(p + to, p + EH(m, e_shoff), table);
	memcpy(p + text, p + str_at, str_size);
	m->size = text + str_size + more * 32;
	EH_PUT(m, e_shoff, to);
	EH_PUT(m, e_shnum, n + more);
	strings = shdr(m, EH(m, e_shstrndx));
	PUT(m, strings, Elf64_Shdr, sh_offset, text);
	PUT(m, strings, Elf64_Shdr, sh_size, str_size + more * 32);
	for (i = 0; i < more; i++) {
		const char *name = names[structure_below(m, COUNT(names))];
		uint64_t sh = shdr(m, n + i), like = shdr(m, 1 + structure_below(m, (uint32_t)n - 1));

		memcpy(m->bytes + sh, m->bytes + like, sizeof(Elf64_Shdr));
		memcpy(m->bytes + text + str_size + 32 * i, name, strlen(name));
		PUT(m, sh, Elf64_Shdr, sh_name, str_size + 32 * i);
		if (chance(m, 2))
			PUT(m, sh, Elf64_Shdr, sh_type, types[structure_below(m, COUNT(types))]);
		if (chance(m, 3))
			PUT(m, sh, Elf64_Shdr, sh_size, extreme(m, GET(m, sh, Elf64_Shdr, sh_size)));
		if (chance(m, 3))
			PUT(m, sh, Elf64_Shdr, sh_addr, extreme(m, GET(m, sh, Elf64_Shdr, sh_addr)));
	}
	return true;
}

/* ---- program headers ------------------------------------------------------------------ */

static bool segment_type(struct mutant *m)
{
	const uint32_t kinds[] = {PT_NULL, PT_LOAD, PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_SHLIB, PT_PHDR, PT_TLS, PT_GNU_EH_FRAME,
	                          PT_GNU_STACK, PT_GNU_RELRO, PT_GNU_PROPERTY, 0x60000000, 0xffffffff};
	uint64_t p = any_segment(m);

	return p && PUT(m, p, Elf64_Phdr, p_type, kinds[structure_below(m, COUNT(kinds))]);
}

static bool segment_sizes(struct mutant *m)
{
	uint64_t p = any_segment(m), how = structure_below(m, 3), v;

	if (!p)
		return false;
	v = extreme(m, GET(m, p, Elf64_Phdr, p_filesz));
	if (how != 1)
		PUT(m, p, Elf64_Phdr, p_filesz, v);
	if (how != 0)
		PUT(m, p, Elf64_Phdr, p_memsz, how == 1 ? extreme(m, GET(m, p, Elf64_Phdr, p_memsz)) : v);
	return true;
}

static bool segment_address(struct mutant *m)
{
	uint64_t p = any_segment(m), other = any_segment(m);

	return p && PUT(m, p, Elf64_Phdr, p_vaddr, chance(m, 2) ? extreme(m, GET(m, p, Elf64_Phdr, p_vaddr))
	                                           : GET(m, other, Elf64_Phdr, p_vaddr) + structure_below(m, 3) * 0x1000);
}

static bool segment_offset(struct mutant *m)
{
	uint64_t p = any_segment(m), other = any_segment(m);

	return p && PUT(m, p, Elf64_Phdr, p_offset, chance(m, 2) ? extreme(m, GET(m, p, Elf64_Phdr, p_offset))
	                                            : GET(m, other, Elf64_Phdr, p_offset) + structure_below(m, 3) * 0x1000);
}

static bool segment_overlap(struct mutant *m)
{
	uint64_t p = any_segment(m), other = any_segment(m), by;

	if (!p || p == other)
		return false;
	by = structure_below(m, 4) * 0x800;
	PUT(m, p, Elf64_Phdr, p_vaddr, GET(m, other, Elf64_Phdr, p_vaddr) + by);
	PUT(m, p, Elf64_Phdr, p_offset, GET(m, other, Elf64_Phdr, p_offset) + by);
	if (chance(m, 2)) {
		PUT(m, p, Elf64_Phdr, p_filesz, GET(m, other, Elf64_Phdr, p_filesz) - by);
		PUT(m, p, Elf64_Phdr, p_memsz, GET(m, other, Elf64_Phdr, p_memsz) - by);
	}
	if (chance(m, 2))
		PUT(m, p, Elf64_Phdr, p_type, PT_LOAD);
	return true;
}

static bool segment_flags(struct mutant *m)
{
	uint64_t p = any_segment(m);

	return p && PUT(m, p, Elf64_Phdr, p_flags, GET(m, p, Elf64_Phdr, p_flags) ^ (1u << structure_below(m, 4)));
}

static bool segment_align(struct mutant *m)
{
	uint64_t p = any_segment(m);

	return p && PUT(m, p, Elf64_Phdr, p_align, chance(m, 4) ? wide(m) : 1ull << structure_below(m, 64));
}

static bool segment_order(struct mutant *m)
{
	return bytes_swap(m, "program headers swapped", any_segment(m), any_segment(m), sizeof(Elf64_Phdr));
}

static bool segment_number(struct mutant *m)
{
	if (chance(m, 3))
		return PUT(m, shdr(m, 0), Elf64_Shdr, sh_info, number(m, 0, phdr_count(m))) && EH_PUT(m, e_phnum, PN_XNUM);
	return EH_PUT(m, e_phnum, number(m, EH(m, e_phnum), phdr_count(m)));
}

static bool segment_place(struct mutant *m)
{
	return EH_PUT(m, e_phoff, chance(m, 2) ? extreme(m, EH(m, e_phoff)) : GET(m, any_section(m), Elf64_Shdr, sh_offset));
}

static bool file_header(struct mutant *m)
{
	const uint32_t kinds[] = {ET_REL, ET_EXEC, ET_DYN, ET_CORE, ET_NONE};

	switch (structure_below(m, 5)) {
	case 0: return EH_PUT(m, e_type, kinds[structure_below(m, COUNT(kinds))]);
	case 1: return EH_PUT(m, e_entry, chance(m, 2) ? extreme(m, EH(m, e_entry)) : GET(m, any_section(m), Elf64_Shdr, sh_addr));
	case 2: return EH_PUT(m, e_shoff, extreme(m, EH(m, e_shoff)));
	case 3: return EH_PUT(m, e_shentsize, number(m, 64, 64));
	default: return EH_PUT(m, e_phentsize, number(m, 56, 56));
	}
}

const struct structure_kind structure_of_headers[] = {
	{"section-type", section_type, false}, {"section-nobits", section_nobits, false},
	{"section-size", section_size, false}, {"section-address", section_address, false},
	{"section-offset", section_offset, false}, {"section-overlap", section_overlap, false},
	{"section-link", section_link, false}, {"section-info", section_info, false},
	{"section-entsize", section_entsize, false}, {"section-flags", section_flags, false},
	{"section-align", section_align, false}, {"section-order", section_order, false},
	{"section-copy", section_copy, false}, {"section-name", section_name, false},
	{"section-number", section_number, false}, {"section-strings", section_strings, false},
	{"section-null", section_null, false}, {"section-added", section_added, false},
	{"segment-type", segment_type, false}, {"segment-sizes", segment_sizes, false},
	{"segment-address", segment_address, false}, {"segment-offset", segment_offset, false},
	{"segment-overlap", segment_overlap, false}, {"segment-flags", segment_flags, false},
	{"segment-align", segment_align, false}, {"segment-order", segment_order, false},
	{"segment-number", segment_number, false}, {"segment-place", segment_place, false},
	{"file-header", file_header, false},
};
const unsigned structure_header_kinds = COUNT(structure_of_headers);
