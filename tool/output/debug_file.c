/* SPDX-License-Identifier: MIT */
/* Writes separate debug files: headers of loaded sections without contents, the build-id, and one section. */
#include "output/debug_file.h"

#include "support/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTE_BUILD_ID ".note.gnu.build-id"

struct file_builder {
	uint8_t *bytes; /* contents after the program headers */
	size_t size, capacity;
	uint64_t base; /* file offset of `bytes` */
	Elf64_Shdr *headers;
	char *names;
	size_t count, header_capacity, names_size, names_capacity;
};

/* Appends bytes at an aligned file offset, and returns that offset. */
static uint64_t contents_add(struct file_builder *m, const void *data, size_t size, uint64_t align)
{
	size_t at = m->size + (size_t)(-(m->base + m->size) & (align - 1));

	while (m->capacity < at + size)
		mem_reserve(&m->bytes, &m->capacity, m->capacity, 1);
	memset(m->bytes + m->size, 0, at - m->size);
	memcpy(m->bytes + at, data, size);
	m->size = at + size;
	return m->base + at;
}

/* Adds a section header; its contents have been added at sh->sh_offset. */
static void header_add(struct file_builder *m, const char *name, const Elf64_Shdr *sh)
{
	size_t size = strlen(name) + 1;

	mem_reserve(&m->headers, &m->header_capacity, m->count, sizeof(*m->headers));
	while (m->names_capacity < m->names_size + size)
		mem_reserve(&m->names, &m->names_capacity, m->names_capacity, 1);
	m->headers[m->count] = *sh;
	m->headers[m->count++].sh_name = (Elf64_Word)m->names_size;
	memcpy(m->names + m->names_size, name, size);
	m->names_size += size;
}

static void build_id_add(struct file_builder *m, const struct elf_file *f, const Elf64_Shdr *as)
{
	Elf64_Shdr sh = {.sh_type = SHT_NOTE, .sh_flags = SHF_ALLOC, .sh_addr = as ? as->sh_addr : 0, .sh_addralign = 4};
	const uint8_t *id;
	uint32_t head[4] = {4, (uint32_t)elf_build_id(f, &id), 3 /* NT_GNU_BUILD_ID */, 0};

	memcpy(&head[3], "GNU", 4);
	sh.sh_offset = contents_add(m, head, sizeof(head), 4);
	contents_add(m, id, head[1], 4);
	sh.sh_size = sizeof(head) + head[1];
	header_add(m, NOTE_BUILD_ID, &sh);
}

/* Adds the loaded sections of f, as memory without contents, and its build-id. */
static void loaded_add(struct file_builder *m, const struct elf_file *f)
{
	const uint8_t *id;
	bool has_id = elf_build_id(f, &id) > 0;
	uint32_t i;

	for (i = 1; i < f->section_count && m->count < SHN_LORESERVE - 4; i++) {
		Elf64_Shdr sh = f->sections[i].sh;

		if (!(sh.sh_flags & SHF_ALLOC))
			continue;
		if (has_id && !strcmp(f->sections[i].name, NOTE_BUILD_ID)) {
			build_id_add(m, f, &sh);
			has_id = false;
			continue;
		}
		sh.sh_type = SHT_NOBITS;
		sh.sh_offset = m->base + m->size;
		sh.sh_link = sh.sh_info = 0;
		header_add(m, f->sections[i].name, &sh);
	}
	if (has_id)
		build_id_add(m, f, NULL);
}

/* Adds the section names, which include the name of their own section. */
static void names_add(struct file_builder *m)
{
	Elf64_Shdr sh = {.sh_type = SHT_STRTAB, .sh_addralign = 1};

	header_add(m, ".shstrtab", &sh);
	m->headers[m->count - 1].sh_size = m->names_size;
	m->headers[m->count - 1].sh_offset = contents_add(m, m->names, m->names_size, 1);
}

void debug_file_make(const struct elf_file *f, const char *name, const void *data, size_t size, uint8_t **out,
                     size_t *out_size)
{
	const Elf64_Shdr none = {0};
	Elf64_Shdr sh = {.sh_type = SHT_PROGBITS, .sh_addralign = 8, .sh_size = size};
	uint32_t phdrs = f->phdr_count < PN_XNUM ? f->phdr_count : 0, i;
	struct file_builder m = {.base = sizeof(Elf64_Ehdr) + phdrs * sizeof(Elf64_Phdr)};
	Elf64_Ehdr eh = f->eh;

	header_add(&m, "", &none);
	loaded_add(&m, f);
	sh.sh_offset = contents_add(&m, data, size, 8);
	header_add(&m, name, &sh);
	names_add(&m);
	eh.e_phoff = phdrs ? sizeof(eh) : 0;
	eh.e_phnum = (Elf64_Half)phdrs;
	eh.e_phentsize = sizeof(Elf64_Phdr);
	eh.e_shentsize = sizeof(Elf64_Shdr);
	eh.e_shnum = (Elf64_Half)m.count;
	eh.e_shstrndx = (Elf64_Half)(m.count - 1);
	eh.e_shoff = contents_add(&m, m.headers, m.count * sizeof(*m.headers), 8);
	*out_size = m.base + m.size;
	*out = mem_alloc(*out_size, 1);
	memcpy(*out, &eh, sizeof(eh));
	for (i = 0; i < phdrs; i++) {
		Elf64_Phdr p = f->phdrs[i];

		p.p_offset = p.p_align > 1 ? p.p_vaddr & (p.p_align - 1) : 0;
		if (p.p_type == PT_PHDR)
			p.p_offset = eh.e_phoff;
		p.p_filesz = 0;
		memcpy(*out + sizeof(eh) + i * sizeof(p), &p, sizeof(p));
	}
	memcpy(*out + m.base, m.bytes, m.size);
	free(m.bytes);
	free(m.headers);
	free(m.names);
}

int debug_file_path(const struct elf_file *f, const char *directory, char *out, size_t size, struct error *e)
{
	const uint8_t *id;
	size_t n = elf_build_id(f, &id), i, at;

	if (n < 2)
		return error_set(e, "has no build-id, by which debuggers find a debug file (link with -Wl,--build-id)");
	at = (size_t)snprintf(out, size, "%s/.build-id/%02x/", directory, id[0]);
	for (i = 1; i < n && at < size; i++)
		at += (size_t)snprintf(out + at, size - at, "%02x", id[i]);
	if (at < size)
		at += (size_t)snprintf(out + at, size - at, ".debug");
	return at < size ? 0 : error_set(e, "the path of its debug file is too long");
}
