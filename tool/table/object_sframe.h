/* SPDX-License-Identifier: MIT */
/*
 * The .sframe section of an object file. As in the output of the GNU assembler, one section serves all code of the
 * file, and the start of each FDE is a relocation. The linker joins the sections of all objects, and drops the FDEs of
 * sections that it discards.
 */
#ifndef TABLE_OBJECT_SFRAME_H
#define TABLE_OBJECT_SFRAME_H

#include "output/object_write.h"
#include "table/sframe.h"

/* The section, and its counts. */
struct object_sframe {
	struct new_section *section; /* null: there is none, because no row can be expressed */
	struct sframe counts;        /* counts of the section's contents, which the section owns */
};

/* Makes the section. No FDE covers more than one section of code. Returns 0, or -1 with a message in *e. */
int object_sframe_build(const struct code_space *space, const struct row_list *rows, unsigned version,
                        struct object_sframe *out, struct error *e);
void object_sframe_free(struct object_sframe *t);

/*
 * Looks for sections .sframe in an object file, whichever tool made them. Sets emptied[i] for the index i of each of
 * them and of each section with their relocations. Returns 1 if there is exactly one and it equals `wanted`, or if
 * there is none and none is wanted; 0 if not; -1 with a message in *e.
 */
int object_sframe_present(const struct elf_file *f, const struct object_sframe *wanted, bool *emptied, struct error *e);

/* Returns the contents of a section .sframe of an object file, as if it were at address 0, with its relocations
 * resolved to addresses of `space`; the result is from malloc(). If a relocation does not refer to code, the FDE's
 * start is 0. Returns null with a message in *e if relocations are malformed. */
uint8_t *object_sframe_resolve(const struct elf_file *f, const struct code_space *space, uint32_t section,
                               struct error *e);

#endif
