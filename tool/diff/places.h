/* SPDX-License-Identifier: MIT */
/* Looks up places in a file: sections, named data, and the relocations that write to them. */
#ifndef DIFF_PLACES_H
#define DIFF_PLACES_H

#include "elf/dynamic.h"
#include "elf/symbols.h"

struct image;
struct jump_tables;

/* A section and an address in it. */
struct place {
	uint32_t section;
	uint64_t addr; /* ET_REL: offset in the section */
};

/* The relocations of one section in an object file. */
struct place_relocs {
	struct elf_reloc *list; /* sorted by offset */
	size_t count;
};

/* Lookup tables of one file. */
struct places {
	struct symbol_index objects; /* data symbols */
	struct symbol_index threads; /* linked: symbols of thread-local data */
	uint32_t *loaded;            /* linked: loaded sections, sorted by address */
	size_t loaded_count;
	struct dynamic_reloc *dynamic; /* linked: sorted by place */
	size_t dynamic_count;
	struct place_relocs *relocs; /* ET_REL: indexed by section */
	uint32_t reloc_sections;
	/*
	 * Data addresses in operands of code, sorted. Data without a symbol is taken to end, at the latest, at the next of
	 * these addresses.
	 */
	struct place *used;
	size_t used_count, used_capacity;
	uint64_t tls_size;          /* size of the TLS block, which ends at the thread pointer */
	struct jump_tables *tables; /* cache (diff/jump_tables.h) */
	bool fixed;                 /* the file is loaded at its link address, so numbers may be addresses */
};

int places_open(struct image *im, struct error *e);
void places_close(struct places *p);

/*
 * Finds the target of entry `i` of a table with entries of `width` bytes (4: distances from the table; 8: addresses).
 * Returns false if the entry does not lead into a function.
 */
bool place_entry(const struct image *im, struct place table, unsigned width, size_t i, struct place *to);

/* Linked files: returns the loaded section that contains an address, or 0. */
uint32_t place_section(const struct image *im, uint64_t addr);
/* ET_REL: returns the first relocation of a section at an offset in [from, end), or null. */
const struct elf_reloc *place_reloc(const struct image *im, uint32_t section, uint64_t from, uint64_t end);
/* Linked files: returns the first dynamic relocation that writes to an address in [addr, addr + size), or null. */
const struct dynamic_reloc *place_dynamic(const struct image *im, uint64_t addr, uint64_t size);
/* Returns `size` bytes of the section contents at a place, or null. */
const uint8_t *place_bytes(const struct image *im, struct place at, uint64_t size);
/* True if a relocation writes to one of the `size` bytes at a place. */
bool place_is_relocated(const struct image *im, struct place at, uint64_t size);
int place_order(const void *a, const void *b);
bool place_is_code(const struct image *im, uint32_t section);

#endif
