/* SPDX-License-Identifier: MIT */
/* Reads the symbol table of a file from the file itself (symbol_scan.h): only the table and the names that are needed,
 * so that a library of hundreds of megabytes costs no more than its table of symbols. */
#include "dwarf/symbol_scan.h"

#include <stdlib.h>
#include <string.h>

#include "dwarf/debug_copy.h"
#include "elf/headers.h"
#include "support/memory.h"
#include "support/sort.h"

#define SECTIONS_MOST 65536u
#define NAMES_MOST    ((uint64_t)16 << 20) /* bytes of the names of sections */
#define TABLE_MOST    ((uint64_t)4 << 30)
#define BLOCK_SYMBOLS 4096u
#define NAME_MOST     65536u /* the greatest number of bytes of a name that are read */

struct sections {
	Elf64_Shdr *list;
	size_t count;
	char *names;
	uint64_t names_size;
};

static bool sections_read(struct sections *s, int fd)
{
	const Elf64_Shdr *names;
	Elf64_Ehdr h;

	*s = (struct sections){0};
	if (!elf_bytes_read(fd, 0, &h, sizeof(h)) || h.e_shentsize != sizeof(Elf64_Shdr) || !h.e_shnum ||
	    h.e_shstrndx >= h.e_shnum)
		return false;
	s->count = h.e_shnum;
	s->list = calloc(s->count, sizeof(*s->list));
	if (!s->list || !elf_bytes_read(fd, h.e_shoff, s->list, s->count * sizeof(*s->list)))
		return false;
	names = &s->list[h.e_shstrndx];
	if (names->sh_size > NAMES_MOST)
		return false;
	s->names_size = names->sh_size;
	s->names = calloc(1, (size_t)s->names_size + 1);
	return s->names && elf_bytes_read(fd, names->sh_offset, s->names, (size_t)s->names_size);
}

static void sections_free(struct sections *s)
{
	free(s->list);
	free(s->names);
}

static const char *section_name(const struct sections *s, size_t i)
{
	return s->list[i].sh_name < s->names_size ? s->names + s->list[i].sh_name : "";
}

static const Elf64_Shdr *section_of(const struct sections *s, const char *name)
{
	for (size_t i = 0; i < s->count; i++)
		if (!strcmp(section_name(s, i), name))
			return &s->list[i];
	return NULL;
}

static const Elf64_Shdr *section_of_type(const struct sections *s, uint32_t type)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->list[i].sh_type == type)
			return &s->list[i];
	return NULL;
}

/* Does the file have anything that only libdw can read? */
static bool has_more(const struct sections *s, const char *path, int fd)
{
	const Elf64_Shdr *link = section_of(s, ".gnu_debuglink");
	struct elf_headers h;
	char name[256] = "";
	bool found;

	for (size_t i = 0; i < s->count; i++) {
		const char *section = section_name(s, i);

		if (!strcmp(section, ".gnu_debugdata") || !strcmp(section, ".gnu_debugaltlink") ||
		    !strncmp(section, ".debug_", 7) || !strncmp(section, ".zdebug_", 8))
			return true;
	}
	if (link && (link->sh_size > sizeof(name) || !elf_bytes_read(fd, link->sh_offset, name, (size_t)link->sh_size)))
		return true;
	name[sizeof(name) - 1] = 0;
	if (!elf_headers_read(&h, fd))
		return true;
	found = debug_copy_may_be(path, h.build_id, h.build_id_size, name);
	elf_headers_free(&h);
	return found;
}

/* Reads a name from the file, which the scan then owns. Returns "" if it cannot be read, or null if out of memory. */
static const char *name_read(struct symbol_scan *s, int fd, const Elf64_Shdr *names, uint32_t at)
{
	uint64_t left = at < names->sh_size ? names->sh_size - at : 0;
	char block[512], *name = NULL;
	size_t size = left < sizeof(block) ? (size_t)left : sizeof(block);
	const char *end;

	if (!size || !elf_bytes_read(fd, names->sh_offset + at, block, size))
		return "";
	end = memchr(block, 0, size);
	if (end) {
		name = strndup(block, (size_t)(end - block));
	} else {
		size = left < NAME_MOST ? (size_t)left : NAME_MOST;
		name = calloc(1, size + 1);
		if (name && !elf_bytes_read(fd, names->sh_offset + at, name, size))
			*name = 0;
	}
	if (!name)
		return NULL;
	mem_reserve(&s->owned, &s->owned_capacity, s->owned_count, sizeof(*s->owned));
	s->owned[s->owned_count++] = name;
	return name;
}

/* Examines a symbol. Returns false if out of memory. */
static bool symbol_look(struct symbol_scan *s, int fd, const struct sections *all, const Elf64_Shdr *names,
                        const Elf64_Sym *sym)
{
	const Elf64_Shdr *code;
	const char *name;
	uint64_t limit;

	if (!symbol_scan_fits(sym) || sym->st_shndx >= all->count)
		return true;
	code = &all->list[sym->st_shndx];
	limit = code->sh_addr + code->sh_size;
	if (!(code->sh_flags & SHF_EXECINSTR) || !symbol_scan_has(s, sym->st_value, sym->st_size, limit))
		return true;
	name = name_read(s, fd, names, sym->st_name);
	if (!name)
		return false;
	if (*name)
		symbol_scan_keep(s, sym, sym->st_value, limit, name);
	return true;
}

static bool table_read(struct symbol_scan *s, int fd, const struct sections *all, const Elf64_Shdr *table)
{
	Elf64_Sym *block = malloc(BLOCK_SYMBOLS * sizeof(*block));
	uint64_t count = table->sh_size / sizeof(*block);
	const Elf64_Shdr *names = table->sh_link < all->count ? &all->list[table->sh_link] : NULL;
	bool good = block && names && table->sh_size <= TABLE_MOST;

	for (uint64_t i = 0; good && i < count; i += BLOCK_SYMBOLS) {
		size_t n = count - i < BLOCK_SYMBOLS ? (size_t)(count - i) : BLOCK_SYMBOLS;

		good = elf_bytes_read(fd, table->sh_offset + i * sizeof(*block), block, n * sizeof(*block));
		for (size_t k = 0; good && k < n; k++)
			good = symbol_look(s, fd, all, names, &block[k]);
	}
	free(block);
	return good;
}

enum symbol_file symbol_scan_file(struct symbol_scan *s, const char *path, int fd)
{
	const Elf64_Shdr *table = NULL;
	enum symbol_file result = SYMBOL_FILE_MORE;
	struct sections all;

	if (sections_read(&all, fd) && !has_more(&all, path, fd)) {
		table = section_of_type(&all, SHT_SYMTAB);
		if (!table)
			table = section_of_type(&all, SHT_DYNSYM);
		result = !table || table_read(s, fd, &all, table) ? SYMBOL_FILE_DONE : SYMBOL_FILE_BAD;
		symbol_scan_end(s);
	}
	sections_free(&all);
	return result;
}
