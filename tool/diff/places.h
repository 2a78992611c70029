/* SPDX-License-Identifier: MIT */
/* What an operand refers to, said in a way that does not depend on where it lies. */
#ifndef DIFF_PLACES_H
#define DIFF_PLACES_H

#include "elf/dynamic.h"
#include "elf/symbols.h"

struct image;

enum ref_kind {
	REF_NONE,
	REF_INSIDE,   /* code of the same function: value = its address */
	REF_FUNCTION, /* of this file: value = its number; more = 0, or a hash of the code there */
	REF_NAMED,    /* a symbol: value = hash of its name; more = offset */
	REF_CONTENT,  /* read-only bytes: value = their hash */
	REF_TABLE,    /* a jump table: value = address, more = number of entries */
	REF_DATA,     /* data without a name: value = address, more = section (TLS: | PLACE_TLS) */
	REF_NUMBER,   /* no place in this file: value */
};

#define PLACE_TLS 0x80000000u

struct xref {
	uint64_t value;
	uint32_t more;
	uint32_t insn; /* number of the instruction in its function */
	uint32_t kind; /* enum ref_kind */
};

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

/* What is known about the operand. */
struct place_use {
	uint32_t func;   /* that it is in */
	unsigned access; /* bytes accessed there, 0: its address is taken, or more than that is not known */
	const struct place *own; /* all data places of the function, sorted */
	size_t own_count;
};

/* `text`, unless it is null, gets the same for people. */
void place_ref(const struct image *im, struct place at, const struct place_use *use, struct xref *out, char *text,
               size_t size);
/* ET_REL: symbol + addend of a relocation. */
void place_symbol(const struct image *im, const struct elf_symbol *s, int64_t addend, const struct place_use *use,
                  struct xref *out, char *text, size_t size);
/* Linked: an offset from the thread pointer. False: nothing is known of it. */
bool place_thread(const struct image *im, int64_t offset, struct xref *out, char *text, size_t size);

/* Entry `i` of a table whose entries are `width` bytes (4: relative to the table, 8), as a
 * place in code. False: there is none. */
bool place_entry(const struct image *im, struct place table, unsigned width, size_t i, struct place *to);

/* Linked: are both addresses the start, or both the end, of a section of one name? An address
 * may be the end of one and the start of another. */
bool place_bounds_meet(const struct image *old, uint64_t a, const struct image *new, uint64_t b);
/* Linked: the loaded section that holds an address, or 0. */
uint32_t place_section(const struct image *im, uint64_t addr);
/* The first relocation at or behind an offset of a section (ET_REL). */
const struct elf_reloc *place_reloc(const struct image *im, uint32_t section, uint64_t from, uint64_t end);
int place_order(const void *a, const void *b);
bool place_is_code(const struct image *im, uint32_t section);

#endif
