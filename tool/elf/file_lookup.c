/* SPDX-License-Identifier: MIT */
/* Looks up what an opened ELF file holds: sections by name, their relocations, the bytes at an address, entries of
 * .dynamic, the build-id; and describes a place for messages. */
#include "elf/file.h"
#include "support/bounds.h"
#include "support/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t elf_section_find(const struct elf_file *f, const char *name, uint32_t from)
{
	uint32_t i;

	for (i = from ? from : 1; i < f->section_count; i++)
		if (elf_name_is(f->sections[i].name, name))
			return i;
	return 0;
}

uint32_t elf_section_rela(const struct elf_file *f, uint32_t target, uint32_t from)
{
	const Elf64_Shdr *before = from > 1 && from <= f->section_count ? &f->sections[from - 1].sh : NULL;
	uint32_t i;

	if (target >= f->section_count)
		return 0;
	/* A caller that iterates resumes in constant time after the section that it found last. */
	i = before && before->sh_type == SHT_RELA && before->sh_info == target ? f->relas[f->section_count + from - 1]
	                                                                       : f->relas[target];
	while (i && i < from)
		i = f->relas[f->section_count + i];
	return i;
}

long elf_relocs_count(const struct elf_file *f, uint32_t section, struct error *e)
{
	const struct elf_section *s = &f->sections[section];
	uint64_t n = s->sh.sh_size / sizeof(Elf64_Rela), symbols;
	long i;

	if (s->sh.sh_size % sizeof(Elf64_Rela))
		return error_set(e, "section %s: not a whole number of relocations", s->name);
	if (!s->data)
		return 0;
	/* A relocation of an object file that names a symbol of another table would be taken for one of .symtab. */
	symbols = 0;
	if (s->sh.sh_link == f->symtab)
		symbols = f->symbol_count;
	else if (s->sh.sh_link == f->dynsym && !elf_is_object(f))
		symbols = f->dynsym_count;
	for (i = 0; i < (long)n; i++) {
		uint32_t symbol = elf_reloc_at(f, section, i).symbol;

		if (symbol && symbol >= symbols)
			return error_set(e, "section %s: relocation %ld names symbol %u of %" PRIu64, s->name, i, symbol, symbols);
	}
	return (long)n;
}

long elf_relocs(const struct elf_file *f, uint32_t section, struct elf_reloc **out, struct error *e)
{
	long n = elf_relocs_count(f, section, e), i;
	bool sorted = true;
	struct elf_reloc *r;

	*out = NULL;
	if (n < 0 || !f->sections[section].data)
		return n;
	r = mem_alloc((size_t)n, sizeof(*r));
	for (i = 0; i < n; i++) {
		r[i] = elf_reloc_at(f, section, i);
		if (i && r[i].offset < r[i - 1].offset)
			sorted = false;
	}
	if (!sorted)
		qsort(r, (size_t)n, sizeof(*r), elf_reloc_order);
	*out = r;
	return n;
}

struct elf_held elf_held(const struct elf_file *f, uint32_t section, uint64_t addr)
{
	const struct elf_section *s = &f->sections[section];
	uint64_t at = addr - (elf_is_object(f) ? 0 : s->sh.sh_addr);

	return s->data && at < s->sh.sh_size ? (struct elf_held){s->data + at, s->sh.sh_size - at} : (struct elf_held){0};
}

const uint8_t *elf_at(const struct elf_file *f, uint64_t addr, uint64_t size)
{
	uint32_t i;

	for (i = 0; i < f->phdr_count; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];

		if (p->p_type == PT_LOAD && addr >= p->p_vaddr && addr - p->p_vaddr < p->p_filesz &&
		    size <= p->p_filesz - (addr - p->p_vaddr))
			return f->bytes + p->p_offset + (addr - p->p_vaddr);
	}
	return NULL;
}

static bool overlap(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
	return a_size && b_size && (a > b ? a - b < b_size : b - a < a_size);
}

int elf_section_alone(const struct elf_file *f, uint32_t section, struct error *e)
{
	const struct elf_section *s = &f->sections[section];
	uint64_t at = s->sh.sh_offset, size = s->data ? s->sh.sh_size : 0;
	uint32_t i;

	if (size && !elf_is_object(f) && elf_at(f, s->sh.sh_addr, size) != s->data)
		return error_set(e, "section %s: its file offset disagrees with its segment", s->name);
	if (overlap(at, size, 0, sizeof(f->eh)) || overlap(at, size, f->eh.e_phoff, f->phdr_count * sizeof(Elf64_Phdr)) ||
	    overlap(at, size, f->eh.e_shoff, f->section_count * sizeof(Elf64_Shdr)))
		return error_set(e, "section %s: its contents overlap the headers", s->name);
	for (i = 1; i < f->section_count; i++)
		if (i != section && f->sections[i].data &&
		    overlap(at, size, f->sections[i].sh.sh_offset, f->sections[i].sh.sh_size))
			return error_set(e, "section %s: its contents overlap section %s", s->name, f->sections[i].name);
	return 0;
}

bool elf_dynamic(const struct elf_file *f, int64_t tag, uint64_t *value)
{
	uint32_t i;
	uint64_t k;

	*value = 0;
	for (i = 0; i < f->phdr_count; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];

		if (p->p_type != PT_DYNAMIC || p->p_offset > f->size || p->p_filesz > f->size - p->p_offset)
			continue;
		for (k = 0; k + sizeof(Elf64_Dyn) <= p->p_filesz; k += sizeof(Elf64_Dyn)) {
			Elf64_Dyn d;

			memcpy(&d, f->bytes + p->p_offset + k, sizeof(d));
			if (d.d_tag == DT_NULL)
				break;
			if (d.d_tag == tag) {
				*value = d.d_un.d_val;
				return true;
			}
		}
	}
	return false;
}

bool elf_is_pie(const struct elf_file *f)
{
	uint64_t flags;

	return elf_dynamic(f, DT_FLAGS_1, &flags) && (flags & DF_1_PIE);
}

/* Finds the build-id among notes, each of which has three words, the owner's name and the contents, both padded to a
 * word (gABI, "Note Section"). Returns its size, or 0 if there is none. */
static size_t build_id_in(const uint8_t *p, uint64_t size, const uint8_t **id)
{
	while (size >= sizeof(Elf64_Nhdr)) {
		uint64_t name, desc;
		Elf64_Nhdr h;

		memcpy(&h, p, sizeof(h));
		name = sizeof(h) + (((uint64_t)h.n_namesz + 3) & ~3ull);
		desc = ((uint64_t)h.n_descsz + 3) & ~3ull;
		if (name > size || h.n_descsz > size - name)
			return 0;
		if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 && !memcmp(p + sizeof(h), ELF_NOTE_GNU, 4)) {
			*id = p + name;
			return h.n_descsz;
		}
		if (desc > size - name)
			return 0;
		p += name + desc;
		size -= name + desc;
	}
	return 0;
}

size_t elf_build_id(const struct elf_file *f, const uint8_t **id)
{
	size_t n = 0;
	uint32_t i;

	*id = f->bytes;
	for (i = 1; i < f->section_count && !n; i++)
		if (f->sections[i].sh.sh_type == SHT_NOTE && f->sections[i].data)
			n = build_id_in(f->sections[i].data, f->sections[i].sh.sh_size, id);
	/* The kernel and the loader look only at program headers. */
	for (i = 0; i < f->phdr_count && !n; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];

		if (p->p_type == PT_NOTE && p->p_align <= 4 && p->p_offset <= f->size && p->p_filesz <= f->size - p->p_offset)
			n = build_id_in(f->bytes + p->p_offset, p->p_filesz, id);
	}
	return n;
}

/* Does the symbol of a function or of data contain an address? */
static bool symbol_holds(const struct elf_symbol *s, uint32_t section, uint64_t addr)
{
	if (s->section != section || !section || s->value > addr || !s->name[0] ||
	    (s->type != STT_FUNC && s->type != STT_OBJECT && s->type != STT_GNU_IFUNC))
		return false;
	return addr - s->value < s->size || (addr == s->value && !s->size);
}

/* Returns the symbol that contains an address and starts nearest before it, preferably not a local one, or null. */
static const struct elf_symbol *symbol_over(const struct elf_file *f, uint32_t section, uint64_t addr)
{
	const struct elf_symbol *best = NULL, *list = f->symbol_count ? f->symbols : f->dynsyms;
	uint32_t n = f->symbol_count ? f->symbol_count : f->dynsym_count, i;

	for (i = 1; i < n; i++) {
		const struct elf_symbol *s = &list[i];

		if (symbol_holds(s, section, addr) &&
		    (!best || s->value > best->value || (s->value == best->value && s->bind != STB_LOCAL)))
			best = s;
	}
	return best;
}

void elf_describe_unnamed(const struct elf_file *f, uint32_t section, uint64_t addr, char *out, size_t out_size)
{
	if (!section)
		snprintf(out, out_size, "the file");
	else if (section < f->section_count)
		snprintf(out, out_size, "%.200s+0x%" PRIx64, f->sections[section].name,
		         addr - (elf_is_object(f) ? 0 : f->sections[section].sh.sh_addr));
	else
		snprintf(out, out_size, "0x%" PRIx64, addr);
}

void elf_describe(const struct elf_file *f, uint32_t section, uint64_t addr, char *out, size_t out_size)
{
	const struct elf_symbol *s = symbol_over(f, section, addr);
	char *p;

	if (s)
		snprintf(out, out_size, addr == s->value ? "%.200s" : "%.200s+0x%" PRIx64, s->name, addr - s->value);
	else
		elf_describe_unnamed(f, section, addr, out, out_size);
	for (p = out; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
}
