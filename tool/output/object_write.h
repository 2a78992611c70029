/* SPDX-License-Identifier: MIT */
/*
 * Writes an object file (ET_REL) with additional sections. Existing sections keep
 * their index and their bytes. Only if section symbols have to be added, the
 * sections that contain symbol numbers change.
 */
#ifndef OUTPUT_OBJECT_WRITE_H
#define OUTPUT_OBJECT_WRITE_H

#include "elf/file.h"

enum new_reloc_to {
	TO_SECTION, /* index: a section of the input */
	TO_SYMBOL,  /* index: a symbol of the input */
	TO_NEW,     /* index: one of the sections added by the same call */
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
	uint32_t type;  /* SHT_*; 0: SHT_PROGBITS */
	uint64_t flags; /* SHF_*; SHF_LINK_ORDER and SHF_GROUP are added according to `about` */
	uint64_t align;
	uint64_t entry; /* sh_entsize */
	uint32_t about; /* input section: the sh_link of SHF_LINK_ORDER, and its group is joined; 0 = none */
	uint8_t *data;
	uint64_t size;
	struct new_reloc *relocs;
	uint64_t *places; /* instead of `relocs`: word i is the PC-relative address of offset places[i] in `about` */
	size_t reloc_count;
};

/* Checks that the file can hold `count` more sections, each with relocations. 0, or -1 and a message. */
int object_write_capacity(const struct elf_file *f, size_t count, struct error *e);

/* A symbol to add, in a section of the input; by its `info`, local or global. */
struct new_symbol {
	const char *prefix, *name; /* its name: the one, then the other */
	uint32_t section;
	uint64_t value, size;
	uint8_t info, other; /* st_info, st_other */
};

struct object_change {
	const struct new_section *added;
	size_t count;
	const struct new_symbol *symbols; /* may be null */
	size_t symbol_count;
	const bool *emptied; /* of each section of the input: it gets size 0; may be null */
	const char *wanted; /* an undefined symbol that the output has: what a linker is to take from an archive; or null */
};

/*
 * The new file's bytes in *out (malloc'd). -1 and a message when the file cannot hold more sections.
 */
int object_write(const struct elf_file *f, const struct object_change *change, uint8_t **out, size_t *out_size,
                 struct error *e);

/* Frees an array of sections with their contents. */
void new_sections_free(struct new_section *sections, size_t count);

#endif
