/* SPDX-License-Identifier: MIT */
/* Private to object_write.c and object_contents.c: the output object while it is made. */
#ifndef OUTPUT_OBJECT_WRITER_H
#define OUTPUT_OBJECT_WRITER_H

#include "output/object_write.h"

/* A section of the output. */
struct object_part {
	Elf64_Shdr sh;
	const void *bytes;                  /* the contents, sh.sh_size bytes; null: none, or one of the next two is set */
	const struct elf_section *renumber; /* input relocations, to be written with the new symbol numbers */
	const struct new_section *added;    /* new section whose relocations this part has */
};

struct object_writer {
	const struct elf_file *f;
	const struct new_section *added;
	size_t count;
	const bool *emptied;
	uint32_t *symbol_of;  /* per input section: its section symbol in the output, or 0 */
	uint32_t *new_locals; /* input sections that get a new section symbol */
	uint32_t new_local_count;
	const struct new_symbol *symbols; /* to add: the local ones after the new section symbols, the global ones last */
	size_t symbol_count;
	uint32_t named_local_count; /* local ones of these */
	uint32_t first_global;      /* number of the input's first global symbol */
	const char *wanted;         /* an undefined symbol to add, whose name comes right behind the input's; or null */
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

/* Takes ownership of `p` until the output is written. Returns p. */
void *object_own(struct object_writer *w, void *p);
/* Zeroed memory that lives until the output is written. */
void *object_keep(struct object_writer *w, size_t size);

/* The number of local symbols that are added, in front of the input's first global one. */
static inline uint32_t object_locals(const struct object_writer *w)
{
	return w->new_local_count + w->named_local_count;
}

/* The number in the output of symbol s of the input. */
static inline uint32_t object_symbol(const struct object_writer *w, uint32_t s)
{
	return s >= w->first_global ? s + object_locals(w) : s;
}

/* The output index of new section k. */
static inline uint32_t object_index(const struct object_writer *w, size_t k) { return w->index_of[k]; }

/*
 * object_contents.c: contents of sections that name symbols or sections by number. Those that return a pointer own
 * the memory (object_own()) and set *size.
 */
void *object_symtab(struct object_writer *w, const struct elf_section *s, uint64_t *size);
/* The names of symbols, where the names of sections are elsewhere. */
void *object_strings(struct object_writer *w, const struct elf_section *s, uint64_t *size);
void *object_shndx(struct object_writer *w, const struct elf_section *s, uint64_t *size);
void *object_addrsig(struct object_writer *w, const struct elf_section *s, uint64_t *size);
void *object_group(struct object_writer *w, uint32_t index, uint64_t *size);
/* The section names; offsets: that of each section's name, by output index. */
void *object_names(struct object_writer *w, const struct elf_section *s, uint64_t *size, uint32_t *offsets);
/* Relocations of an input section, and those of a new section, to `to`. */
void object_relocs_renumber(const struct object_writer *w, const struct elf_section *s, uint8_t *to);
void object_relocs(const struct object_writer *w, const struct new_section *a, uint8_t *to);

#endif
