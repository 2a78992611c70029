/* SPDX-License-Identifier: MIT */
/* What is where in a file: sections, named data, what is written into it before it runs. */
#ifndef DIFF_PLACES_H
#define DIFF_PLACES_H

#include "elf/dynamic.h"
#include "elf/symbols.h"

struct image;

struct place {
	uint32_t section;
	uint64_t addr; /* ET_REL: offset in the section */
};

/* Relocations of one section of an object file. */
struct place_relocs {
	struct elf_reloc *list; /* by offset */
	size_t count;
};

struct places {
	struct symbol_index objects;       /* named data */
	struct symbol_index threads;       /* linked: named thread-local data */
	uint32_t *loaded;                  /* linked: sections by address */
	size_t loaded_count;
	struct dynamic_reloc *dynamic;     /* linked: by place */
	size_t dynamic_count;
	struct place_relocs *relocs;       /* ET_REL: by section */
	uint32_t reloc_sections;
	struct place *used;                /* data that code refers to, sorted: where one thing ends at the latest */
	size_t used_count, used_room;
	uint64_t tls_size;                 /* of the block below the thread pointer */
	bool fixed;                        /* not relocatable: numbers may be addresses */
};

int places_open(struct image *im, struct error *e);
void places_close(struct places *p);

/* Entry `i` of a table whose entries are `width` bytes (4: relative to the table, 8), as a
 * place in code. False: there is none. */
bool place_entry(const struct image *im, struct place table, unsigned width, size_t i, struct place *to);

/* Linked: the loaded section that holds an address, or 0. */
uint32_t place_section(const struct image *im, uint64_t addr);
/* The first relocation at or behind an offset of a section (ET_REL). */
const struct elf_reloc *place_reloc(const struct image *im, uint32_t section, uint64_t from, uint64_t end);
/* Linked: the first thing that the dynamic linker writes at a place or in the `size` bytes from there on, or null. */
const struct dynamic_reloc *place_dynamic(const struct image *im, uint64_t addr, uint64_t size);
/* The bytes of a place, of which `size` are in its section's contents; or null. */
const uint8_t *place_bytes(const struct image *im, struct place at, uint64_t size);
/* Does a relocation fill any of these bytes? */
bool place_is_relocated(const struct image *im, struct place at, uint64_t size);
int place_order(const void *a, const void *b);
bool place_is_code(const struct image *im, uint32_t section);

#endif
