/* SPDX-License-Identifier: MIT */
/* Reads the headers and the build-id of an open ELF file (headers.h). */
#include "elf/headers.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

#define PHDRS_MOST 4096u
#define NOTES_MOST (1u << 16)

/* Copies the build-id from the bytes of a PT_NOTE segment. Returns its size, or 0 if there is none. */
static unsigned note_build_id(const uint8_t *notes, size_t size, uint8_t *id)
{
	size_t at = 0;

	while (size - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr n;
		size_t name, desc;

		memcpy(&n, notes + at, sizeof(n));
		name = at + sizeof(n);
		if (n.n_namesz > size || n.n_descsz > size)
			return 0;
		desc = name + ((n.n_namesz + 3u) & ~3u);
		if (desc > size || n.n_descsz > size - desc)
			return 0;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && !memcmp(notes + name, "GNU", 4) && n.n_descsz &&
		    n.n_descsz <= BUILD_ID_MOST) {
			memcpy(id, notes + desc, n.n_descsz);
			return n.n_descsz;
		}
		at = desc + ((n.n_descsz + 3u) & ~3u);
		if (at > size)
			return 0;
	}
	return 0;
}

static void build_id_read(struct elf_headers *h, int fd)
{
	for (unsigned i = 0; i < h->phdr_count && !h->build_id_size; i++) {
		const Elf64_Phdr *p = &h->phdrs[i];
		uint8_t *notes;

		if (p->p_type != PT_NOTE || p->p_filesz > NOTES_MOST)
			continue;
		notes = mem_alloc(p->p_filesz, 1);
		if (elf_bytes_read(fd, p->p_offset, notes, p->p_filesz))
			h->build_id_size = note_build_id(notes, p->p_filesz, h->build_id);
		free(notes);
	}
}

bool elf_headers_read(struct elf_headers *h, int fd)
{
	Elf64_Ehdr *eh = &h->eh;

	memset(h, 0, sizeof(*h));
	if (!elf_bytes_read(fd, 0, eh, sizeof(*eh)) || memcmp(eh->e_ident, ELFMAG, SELFMAG) ||
	    eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_machine != EM_X86_64 || eh->e_phentsize != sizeof(Elf64_Phdr) ||
	    !eh->e_phnum || eh->e_phnum > PHDRS_MOST)
		return false;
	h->phdrs = mem_zero(eh->e_phnum, sizeof(Elf64_Phdr));
	if (!elf_bytes_read(fd, eh->e_phoff, h->phdrs, eh->e_phnum * sizeof(Elf64_Phdr))) {
		elf_headers_free(h);
		return false;
	}
	h->phdr_count = eh->e_phnum;
	build_id_read(h, fd);
	return true;
}

void elf_headers_free(struct elf_headers *h)
{
	free(h->phdrs);
	h->phdrs = NULL;
}
