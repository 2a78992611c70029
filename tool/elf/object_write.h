/* SPDX-License-Identifier: MIT */
/*
 * Writes an object file (ET_REL) again with sections added. Existing sections
 * keep their index and their bytes; only what holds symbol numbers changes where
 * section symbols have to be added.
 */
#ifndef ELF_OBJECT_WRITE_H
#define ELF_OBJECT_WRITE_H

#include "elf/file.h"

enum new_reloc_to {
	TO_SECTION, /* index: a section of the input */
	TO_SYMBOL,  /* index: a symbol of the input */
	TO_NEW,     /* index: a section of the same call */
};

struct new_reloc {
	uint64_t offset;
	int64_t addend;
	uint32_t type;
	uint32_t index;
	enum new_reloc_to to;
};

struct new_section {
	const char *name;
	uint64_t flags;    /* SHF_*; SHF_LINK_ORDER and SHF_GROUP are added as `about` asks */
	uint64_t align;
	uint32_t about;    /* section that it is SHF_LINK_ORDER to, joining its group; 0 = none */
	uint8_t *data;
	uint64_t size;
	struct new_reloc *relocs;
	uint64_t *places;  /* instead of those: word i is, relative to itself, this offset of section `about` */
	size_t reloc_count;
};

/* Can the file hold `count` more sections, with relocations each? 0, or -1 and why not. */
int object_write_room(const struct elf_file *f, size_t count, struct error *e);

/*
 * The new file's bytes in *out (malloc'd). Sections marked in `emptied` (may be
 * null; one bool per section of the input) get size 0. -1 and a message when the
 * file cannot hold more sections or memory is out.
 */
int object_write(const struct elf_file *f, const struct new_section *added, size_t count, const bool *emptied,
                 uint8_t **out, size_t *out_size, struct error *e);

/* Frees an array of sections with their contents. */
void new_sections_free(struct new_section *sections, size_t count);

#endif
