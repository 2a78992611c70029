/* SPDX-License-Identifier: MIT */
/*
 * Writes an object file (ET_REL) with additional sections. Existing sections keep their index and their bytes. Sections
 * that contain symbol numbers change only if symbols have to be added.
 */
#ifndef OUTPUT_OBJECT_WRITE_H
#define OUTPUT_OBJECT_WRITE_H

#include "elf/file.h"

/* The kinds of targets of a new relocation. */
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

/* A section to add to an object file. */
struct new_section {
	const char *name;
	uint32_t type;  /* SHT_*; 0: SHT_PROGBITS */
	uint64_t flags; /* SHF_*; SHF_LINK_ORDER and SHF_GROUP are added according to `about` */
	uint64_t align;
	uint64_t entry; /* sh_entsize */
	uint32_t about; /* an input section: it becomes the sh_link of SHF_LINK_ORDER, and the new section joins its group;
	                   0 = none */
	uint8_t *data;
	uint64_t size;
	struct new_reloc *relocs;
	uint64_t *places; /* instead of `relocs`: word i is the PC-relative address of offset places[i] in `about` */
	size_t reloc_count;
};

/* Checks that the file can hold `count` more sections, each with relocations. Returns 0, or -1 and a message. */
int object_write_capacity(const struct elf_file *f, size_t count, struct error *e);

/* A symbol to add in a section of the input. Its `info` makes it local or global. */
struct new_symbol {
	const char *prefix, *name; /* its name is the concatenation of these */
	uint32_t section;
	uint64_t value, size;
	uint8_t info, other; /* st_info, st_other */
};

/* All changes of an object file. */
struct object_change {
	const struct new_section *added;
	size_t count;
	const struct new_symbol *symbols; /* may be null */
	size_t symbol_count;
	const bool *emptied; /* for each section of the input, whether its size becomes 0; may be null */
	const char *wanted;  /* an undefined symbol that the output gets, so that a linker takes the archive member that
	                        defines it; or null */
};

/*
 * Makes the new file's bytes in *out (malloc'd). Returns 0, or -1 and a message if the file cannot hold more sections
 * or is malformed.
 */
int object_write(const struct elf_file *f, const struct object_change *change, uint8_t **out, size_t *out_size,
                 struct error *e);

/* Frees an array of sections with their contents. */
void new_sections_free(struct new_section *sections, size_t count);

#endif
