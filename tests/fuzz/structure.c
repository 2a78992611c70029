/* SPDX-License-Identifier: MIT */
#include "structure.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etch/format.h"

#define COUNT(list) (sizeof(list) / sizeof(*(list)))
#define ADDED_MOST  12u   /* section headers added at once */
#define SCAN_MOST   4096u /* headers that are looked at to find one */

uint32_t structure_below(struct mutant *m, uint32_t n)
{
	m->random = m->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((m->random >> 33) % n);
}

static bool chance(struct mutant *m, uint32_t n) { return structure_below(m, n) == 0; }

static uint64_t wide(struct mutant *m) { return (uint64_t)structure_below(m, 1u << 31) << 33 ^ (uint64_t)structure_below(m, 1u << 31) << 11 ^ structure_below(m, 2048); }

static bool holds(const struct mutant *m, uint64_t at, uint64_t n) { return at <= m->size && n <= m->size - at; }

static uint64_t get(const struct mutant *m, uint64_t at, unsigned width)
{
	uint64_t v = 0;

	if (holds(m, at, width))
		memcpy(&v, m->bytes + at, width);
	return v;
}

static void said(struct mutant *m, const char *what, uint64_t at, uint64_t old, uint64_t new)
{
	size_t n = strlen(m->what);

	snprintf(m->what + n, sizeof(m->what) - n, "%s%s at %#" PRIx64 ": %#" PRIx64 " -> %#" PRIx64, n ? "; " : "", what, at, old,
	         new);
}

static bool put(struct mutant *m, const char *what, uint64_t at, unsigned width, uint64_t v)
{
	if (!holds(m, at, width))
		return false;
	said(m, what, at, get(m, at, width), width < 8 ? v & ((1ull << 8 * width) - 1) : v);
	memcpy(m->bytes + at, &v, width);
	return true;
}

/* ---- values that tend to hurt ------------------------------------------------------ */

/* For a size, an address or an offset. */
static uint64_t extreme(struct mutant *m, uint64_t old)
{
	const uint64_t v[] = {0, 1, 7, 8, 0x10, 0xfff, 0x1000, old + 1, old - 1, old + 8, old - 8, 2 * old, old / 2, m->size,
	                      m->size - 1, m->size + 1, 0 - (uint64_t)m->size, 1ull << 31, 1ull << 32, (1ull << 32) - 1,
	                      1ull << 47, 1ull << 48, 1ull << 63, ~0ull, ~0ull - 7, 0 - old, old ^ 1ull << structure_below(m, 64),
	                      old + 0x1000, old - 0x1000, 1ull << structure_below(m, 64), structure_below(m, (uint32_t)m->size + 1)};

	return v[structure_below(m, COUNT(v))];
}

/* For a number of something of which there are n. */
static uint64_t number(struct mutant *m, uint64_t old, uint64_t n)
{
	const uint64_t v[] = {0, 1, 2, n, n - 1, n + 1, old + 1, old - 1, 2 * n, 0xff, 0xfeff, 0xff00, 0xfff1, 0xfff2, 0xffff,
	                      0x10000, 0x7fffffff, 0xffffffff, structure_below(m, n && n < 1u << 20 ? (uint32_t)n : 16)};

	return v[structure_below(m, COUNT(v))];
}

/* ---- headers ------------------------------------------------------------------------ */

#define EH(m, field)       get(m, offsetof(Elf64_Ehdr, field), sizeof(((Elf64_Ehdr *)0)->field))
#define EH_PUT(m, field, v) put(m, #field, offsetof(Elf64_Ehdr, field), sizeof(((Elf64_Ehdr *)0)->field), v)
#define AT(base, type, field) ((base) + offsetof(type, field))
#define WIDTH(type, field) sizeof(((type *)0)->field)
#define GET(m, base, type, field) get(m, AT(base, type, field), WIDTH(type, field))
#define PUT(m, base, type, field, v) put(m, #field, AT(base, type, field), WIDTH(type, field), v)

static uint64_t section_count(const struct mutant *m)
{
	uint64_t n = EH(m, e_shnum), room;

	if (!n)
		n = GET(m, EH(m, e_shoff), Elf64_Shdr, sh_size);
	room = EH(m, e_shoff) < m->size ? (m->size - EH(m, e_shoff)) / sizeof(Elf64_Shdr) : 0;
	return n < room ? n : room;
}

static uint64_t shdr(const struct mutant *m, uint64_t i) { return EH(m, e_shoff) + i * sizeof(Elf64_Shdr); }

/* A header but the first; 0: there is none. */
static uint64_t any_section(struct mutant *m)
{
	uint64_t n = section_count(m);

	return n > 1 ? shdr(m, 1 + structure_below(m, (uint32_t)n - 1)) : 0;
}

static const char *name_of(const struct mutant *m, uint64_t sh)
{
	uint64_t names = shdr(m, EH(m, e_shstrndx)), at = GET(m, names, Elf64_Shdr, sh_offset) + GET(m, sh, Elf64_Shdr, sh_name);

	return at < m->size && memchr(m->bytes + at, 0, m->size - at) ? (const char *)m->bytes + at : "";
}

/* One of a type, or of a name that begins so. */
static uint64_t section_like(struct mutant *m, uint32_t type, const char *name)
{
	uint64_t n = section_count(m), i, start, found = 0;

	n = n < SCAN_MOST ? n : SCAN_MOST;
	if (n < 2)
		return 0;
	start = structure_below(m, (uint32_t)n);
	for (i = 0; i < n && !found; i++) {
		uint64_t sh = shdr(m, (start + i) % n);

		if (name ? !strncmp(name_of(m, sh), name, strlen(name)) : GET(m, sh, Elf64_Shdr, sh_type) == type)
			found = GET(m, sh, Elf64_Shdr, sh_type) != SHT_NOBITS && GET(m, sh, Elf64_Shdr, sh_size) ? sh : 0;
	}
	return found;
}

static uint64_t phdr_count(const struct mutant *m)
{
	uint64_t n = EH(m, e_phnum), at = EH(m, e_phoff), room = at < m->size ? (m->size - at) / sizeof(Elf64_Phdr) : 0;

	return n < room ? n : room;
}

static uint64_t phdr(const struct mutant *m, uint64_t i) { return EH(m, e_phoff) + i * sizeof(Elf64_Phdr); }

static uint64_t any_segment(struct mutant *m)
{
	uint64_t n = phdr_count(m);

	return n ? phdr(m, structure_below(m, (uint32_t)n)) : 0;
}

/* A record of a section, of `each` bytes. */
static uint64_t record_in(struct mutant *m, uint64_t sh, unsigned each)
{
	uint64_t offset = GET(m, sh, Elf64_Shdr, sh_offset), n = GET(m, sh, Elf64_Shdr, sh_size) / each, at;

	if (!sh || !n)
		return 0;
	at = offset + structure_below(m, n < 1u << 20 ? (uint32_t)n : 1u << 20) * (uint64_t)each;
	return holds(m, at, each) ? at : 0;
}

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
	return PUT(m, sh, Elf64_Shdr, sh_addr, chance(m, 3) ? to : chance(m, 2) ? to + extreme(m, GET(m, sh, Elf64_Shdr, sh_size))
	                                       : extreme(m, GET(m, sh, Elf64_Shdr, sh_addr)));
}

static bool section_offset(struct mutant *m)
{
	uint64_t sh = any_section(m), other = any_section(m), to;

	if (!sh)
		return false;
	to = chance(m, 4) ? EH(m, e_shoff) : chance(m, 4) ? EH(m, e_phoff) : GET(m, other, Elf64_Shdr, sh_offset);
	return PUT(m, sh, Elf64_Shdr, sh_offset, chance(m, 3) ? extreme(m, GET(m, sh, Elf64_Shdr, sh_offset)) : to + structure_below(m, 16));
}

/* One takes another's place, or part of it: in memory, in the file, or both. */
static bool section_overlap(struct mutant *m)
{
	uint64_t sh = any_section(m), other = any_section(m), size = GET(m, other, Elf64_Shdr, sh_size), by, how;

	if (!sh || sh == other)
		return false;
	by = size ? structure_below(m, size < 1u << 20 ? (uint32_t)size : 1u << 20) : 0;
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

static bool bytes_swap(struct mutant *m, const char *what, uint64_t a, uint64_t b, size_t n)
{
	uint8_t t[64];

	if (!a || a == b || n > sizeof(t) || !holds(m, a, n) || !holds(m, b, n))
		return false;
	said(m, what, a, a, b);
	memcpy(t, m->bytes + a, n);
	memcpy(m->bytes + a, m->bytes + b, n);
	memcpy(m->bytes + b, t, n);
	return true;
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
	"etched", "etched_imv", "__jump_table", "__bug_table", ".altinstructions", "__ksymtab", ".static_call_sites",
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
	uint64_t at = any_reloc(m), other = any_reloc(m);

	return at && PUT(m, at, Elf64_Rela, r_offset, chance(m, 3) ? GET(m, other, Elf64_Rela, r_offset) + structure_below(m, 9)
	                                              : chance(m, 2) ? GET(m, any_section(m), Elf64_Shdr, sh_addr) + structure_below(m, 64)
	                                              : extreme(m, GET(m, at, Elf64_Rela, r_offset)));
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

#define MEMBER 60u /* bytes of a header */

static bool is_archive(const struct mutant *m)
{
	return m->size > 8 + MEMBER && (!memcmp(m->bytes, "!<arch>\n", 8) || !memcmp(m->bytes, "!<thin>\n", 8));
}

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

/* ---- all of them ---------------------------------------------------------------------- */

static const struct {
	const char *name;
	bool (*make)(struct mutant *m);
	bool archive;
} kinds[] = {
	{"section-type", section_type, false}, {"section-nobits", section_nobits, false}, {"section-size", section_size, false},
	{"section-address", section_address, false}, {"section-offset", section_offset, false},
	{"section-overlap", section_overlap, false}, {"section-link", section_link, false}, {"section-info", section_info, false},
	{"section-entsize", section_entsize, false}, {"section-flags", section_flags, false}, {"section-align", section_align, false},
	{"section-order", section_order, false}, {"section-copy", section_copy, false}, {"section-name", section_name, false},
	{"section-number", section_number, false}, {"section-strings", section_strings, false}, {"section-null", section_null, false},
	{"section-added", section_added, false}, {"segment-type", segment_type, false}, {"segment-sizes", segment_sizes, false},
	{"segment-address", segment_address, false}, {"segment-offset", segment_offset, false},
	{"segment-overlap", segment_overlap, false}, {"segment-flags", segment_flags, false}, {"segment-align", segment_align, false},
	{"segment-order", segment_order, false}, {"segment-number", segment_number, false}, {"segment-place", segment_place, false},
	{"file-header", file_header, false}, {"dynamic-tag", dynamic_tag, false}, {"dynamic-value", dynamic_value, false},
	{"dynamic-order", dynamic_order, false}, {"symbol-section", symbol_section, false}, {"symbol-value", symbol_value, false},
	{"symbol-size", symbol_size, false}, {"symbol-name", symbol_name, false}, {"symbol-kind", symbol_kind, false},
	{"symbol-order", symbol_order, false}, {"reloc-offset", reloc_offset, false}, {"reloc-symbol", reloc_symbol, false},
	{"reloc-type", reloc_type, false}, {"reloc-addend", reloc_addend, false}, {"note", notes, false},
	{"eh-frame-hdr", eh_frame_hdr, false}, {"eh-frame", eh_frame, false}, {"lsda", lsda, false}, {"ex-table", ex_table, false},
	{"pclntab", pclntab, false}, {"etch-table", etch_tables, false}, {"etch-undo", etch_undo, false}, {"orc-table", orc_tables, false},
	{"kernel-table", kernel_tables, false}, {"code", code, false}, {"contents", contents, false}, {"index", groups, false},
	{"file-end", file_end, false}, {"archive-size", archive_size, true}, {"archive-name", archive_name, true},
	{"archive-byte", archive_byte, true}, {"archive-order", archive_order, true}, {"archive-thin", archive_thin, true},
};

unsigned structure_kinds(void) { return COUNT(kinds); }

const char *structure_kind(unsigned kind) { return kinds[kind].name; }

bool structure_mutate(struct mutant *m, unsigned kind)
{
	if (kind >= COUNT(kinds) || kinds[kind].archive != is_archive(m) || (!is_archive(m) && m->size < sizeof(Elf64_Ehdr)))
		return false;
	return kinds[kind].make(m);
}
