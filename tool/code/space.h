/* SPDX-License-Identifier: MIT */
/*
 * All code of a file in one address space. In linked files that is the link-time
 * address; in ET_REL, where every section begins at 0, sections get made-up
 * addresses one behind the other, so that the rest need not care.
 */
#ifndef CODE_SPACE_H
#define CODE_SPACE_H

#include "elf/file.h"

struct code_section {
	uint32_t section;     /* index in the file */
	uint64_t addr, size;
	const uint8_t *bytes;
};

struct code_space {
	struct code_section *list; /* executable sections with contents, sorted by address */
	size_t count;
	uint32_t *at;       /* per section of the file: where in the list, + 1; 0 = not there */
	uint32_t sections;
};

int space_build(const struct elf_file *f, struct code_space *out, struct error *e);
void space_free(struct code_space *s);
/* The section that holds an address, or null. */
const struct code_section *space_at(const struct code_space *s, uint64_t addr);
/* The one of section number `section`, or null. */
const struct code_section *space_of(const struct code_space *s, uint32_t section);

#endif
