/* SPDX-License-Identifier: MIT */
/*
 * section_at.h: inside of the ELF reader: addresses of a linked file and the sections that hold
 * them, as a list to search. There may be 64 Ki sections, asked about for each of as many symbols.
 */
#ifndef ELF_SECTION_AT_H
#define ELF_SECTION_AT_H

#include "elf/file.h"

struct elf_span {
	uint64_t start, last; /* both inside */
	uint32_t section;
};

/* 0; or -1: out of memory. Sections of an object have no addresses: there is no list of them. */
int elf_spans_build(struct elf_file *f, struct error *e);

#endif
