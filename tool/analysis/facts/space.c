/* SPDX-License-Identifier: MIT */
/* Builds the code space from a file's executable sections, or from its executable segments if it has no such
 * sections. */
#include "analysis/facts/space.h"
#include "support/memory.h"
#include "shared/search.h"
#include "support/sort.h"

#include <stdlib.h>
#include <string.h>

/* The address of an object file's first section. It is not 0, since that is the value of an unrelocated field. */
#define OBJECT_BASE 0x100000u

static int section_order(const void *a, const void *b)
{
	const struct code_section *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static bool is_code(const struct elf_section *s)
{
	return (s->sh.sh_flags & SHF_EXECINSTR) && (s->sh.sh_flags & SHF_ALLOC) && s->data && s->sh.sh_size;
}

/* Fills `list` with the sections of code, and returns their number. For object files it assigns the addresses. */
static size_t sections_list(const struct elf_file *f, struct code_section *list)
{
	uint64_t next = OBJECT_BASE;
	bool rel = elf_is_object(f);
	size_t n = 0;
	uint32_t i;

	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];
		uint64_t addr = s->sh.sh_addr;

		if (!is_code(s))
			continue;
		if (rel) {
			uint64_t align = s->sh.sh_addralign > 64 && s->sh.sh_addralign <= 4096 ? s->sh.sh_addralign : 64;

			addr = (next + align - 1) & ~(align - 1);
			next = addr + s->sh.sh_size + 64;
		} else if (addr + s->sh.sh_size < addr) {
			continue;
		}
		list[n++] = (struct code_section){i, addr, s->sh.sh_size, s->data};
	}
	return n;
}

/* Fills `list` with the executable segments, and returns their number. */
static size_t segments_list(const struct elf_file *f, struct code_section *list)
{
	size_t n = 0;
	uint32_t i;

	for (i = 0; i < f->phdr_count; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];
		const uint8_t *bytes;

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || !p->p_filesz)
			continue;
		bytes = elf_at(f, p->p_vaddr, p->p_filesz);
		if (bytes)
			list[n++] = (struct code_section){0, p->p_vaddr, p->p_filesz, bytes};
	}
	return n;
}

void space_build(const struct elf_file *f, struct code_space *out)
{
	size_t n;
	uint32_t i;

	memset(out, 0, sizeof(*out));
	out->list = mem_zero((size_t)f->section_count + f->phdr_count + 1, sizeof(*out->list));
	n = sections_list(f, out->list);
	/* A file without a section of code gets its executable segments instead. Not so a file of separate debug
	 * information, whose segments are those of the file that it describes. */
	if (!n && !elf_is_object(f) && !elf_is_debug(f))
		n = segments_list(f, out->list);
	sort_if_needed(out->list, n, sizeof(*out->list), section_order);
	for (i = 0; i < n; i++) /* of sections that overlap, only the first stays */
		if (!out->count || out->list[i].addr >= out->list[out->count - 1].addr + out->list[out->count - 1].size)
			out->list[out->count++] = out->list[i];
	out->sections = f->section_count;
	out->at = mem_zero((size_t)f->section_count + 1, sizeof(*out->at));
	for (i = 0; i < out->count; i++)
		if (out->list[i].section)
			out->at[out->list[i].section] = (uint32_t)i + 1;
	if (out->count) {
		out->first = out->list[0].addr;
		out->span = out->list[out->count - 1].addr + out->list[out->count - 1].size - out->first;
	}
}

void space_free(struct code_space *s)
{
	free(s->list);
	free(s->at);
	memset(s, 0, sizeof(*s));
}

const struct code_section *space_at(const struct code_space *s, uint64_t addr)
{
	size_t lo = SEARCH(s->count, i, s->list[i].addr + s->list[i].size <= addr);

	return lo < s->count && s->list[lo].addr <= addr ? &s->list[lo] : NULL;
}

const struct code_section *space_of(const struct code_space *s, uint32_t section)
{
	return section < s->sections && s->at[section] ? &s->list[s->at[section] - 1] : NULL;
}
