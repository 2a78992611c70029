/* SPDX-License-Identifier: MIT */
/*
 * The .sframe of an object file: one section for all of its code, as the GNU assembler writes it, in which the start of
 * each FDE is a relocation. The linker joins the sections of all objects, and drops the FDEs of sections that it
 * discards.
 */
#ifndef TABLE_OBJECT_SFRAME_H
#define TABLE_OBJECT_SFRAME_H

#include "output/object_write.h"
#include "table/sframe.h"

struct object_sframe {
	struct new_section *section; /* null: there is none, since no row can be expressed */
	struct sframe counts;        /* counts of the contents, which the section owns */
};

/* Makes the section. No FDE is for more than one section of code. Returns 0, or -1 and a message. */
int object_sframe_build(const struct code_space *space, const struct row_list *rows, unsigned version,
                        struct object_sframe *out, struct error *e);
void object_sframe_free(struct object_sframe *t);

/*
 * Finds the sections .sframe of an object file, whoever wrote them, and marks them and those of their relocations in
 * `emptied`, one bool per section. Returns 1 if there is one and it is equal to `wanted`; 0 if not; -1 and a message.
 */
int object_sframe_present(const struct elf_file *f, const struct object_sframe *wanted, bool *emptied, struct error *e);

/* Returns the contents of a section .sframe of an object file, malloc'd, for address 0, with its relocations to code
 * resolved to addresses of `space`. An FDE with another relocation has the start 0. Returns null and a message if
 * relocations are malformed. */
uint8_t *object_sframe_resolve(const struct elf_file *f, const struct code_space *space, uint32_t section,
                               struct error *e);

#endif
