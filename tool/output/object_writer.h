/* SPDX-License-Identifier: MIT */
/* Private to object_write.c and object_contents.c: the output object while they make it. */
#ifndef OUTPUT_OBJECT_WRITER_H
#define OUTPUT_OBJECT_WRITER_H

#include "output/object_write.h"

/* A section of the output. */
struct object_part {
	Elf64_Shdr sh;
	const void *bytes; /* the contents, sh.sh_size bytes; null: there are none, or one of the next two is set */
	const struct elf_section
		*renumber;                   /* the relocation section of the input that is written with new symbol numbers */
	const struct new_section *added; /* the new section whose relocations this part holds */
};

/* The output object while it is made. */
struct object_writer {
	const struct elf_file *f;
	const struct new_section *added;
	size_t count;
	const bool *emptied;
	uint32_t *symbol_of;  /* per input section: its section symbol in the output, or 0 */
	uint32_t *new_locals; /* input sections that get a new section symbol */
	uint32_t new_local_count;
	const struct new_symbol *symbols; /* symbols to add: local ones after the new section symbols, global ones last */
	size_t symbol_count;
	uint32_t named_local_count; /* number of local symbols in `symbols` */
	uint32_t first_global;      /* number of the input's first global symbol */
	const char *wanted;         /* an undefined symbol to add, whose name directly follows the input's names; or null */
	uint32_t *index_of;         /* output index of each new section */
	uint32_t *group_of;         /* per input section: its SHT_GROUP section, or 0 */
	uint32_t *joins;            /* per SHT_GROUP section: first new section that joins it, + 1; 0 = none */
	uint32_t *next_join;        /* per new section: the next one that joins the same group, + 1 */
	struct object_part *parts;  /* all sections, by output index */
	uint32_t part_count;
	void **owned; /* buffers that parts point into until the end */
	size_t owned_count, owned_capacity;
	struct error *e;
};

/* Takes ownership of `p`, and frees it after the output has been written. Returns p. */
void *object_own(struct object_writer *w, void *p);
/* Returns zeroed memory that lives until the output has been written. */
void *object_keep(struct object_writer *w, size_t size);

/* Returns the number of local symbols that are added before the input's first global one. */
static inline uint32_t object_locals(const struct object_writer *w)
{
	return w->new_local_count + w->named_local_count;
}

/* Returns the number that symbol s of the input has in the output. */
static inline uint32_t object_symbol(const struct object_writer *w, uint32_t s)
{
	return s >= w->first_global ? s + object_locals(w) : s;
}

/* Returns the output index of new section k. */
static inline uint32_t object_index(const struct object_writer *w, size_t k) { return w->index_of[k]; }

/*
 * object_contents.c makes the contents of sections that name symbols or sections by number. The functions that return a
 * pointer register the memory with object_own() and set *size.
 */
void *object_symtab(struct object_writer *w, const struct elf_section *s, uint64_t *size);
/* Makes the names of symbols if they do not share a string table with the names of sections. */
void *object_strings(struct object_writer *w, const struct elf_section *s, uint64_t *size);
void *object_shndx(struct object_writer *w, const struct elf_section *s, uint64_t *size);
void *object_addrsig(struct object_writer *w, const struct elf_section *s, uint64_t *size);
void *object_group(struct object_writer *w, uint32_t index, uint64_t *size);
/* Makes the section names. Sets offsets[2 * k] to the offset of the name of new section k, and offsets[2 * k + 1] to
 * that of the section of its relocations. */
void *object_names(struct object_writer *w, const struct elf_section *s, uint64_t *size, uint32_t *offsets);
/* Write the relocations of an input section and of a new section to `to`. */
void object_relocs_renumber(const struct object_writer *w, const struct elf_section *s, uint8_t *to);
void object_relocs(const struct object_writer *w, const struct new_section *a, uint8_t *to);

#endif
