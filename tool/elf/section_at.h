/* SPDX-License-Identifier: MIT */
/*
 * Private to the ELF reader: a searchable list of the sections of a linked file by address. It keeps lookups fast in a
 * file that has 64 Ki sections and as many symbols, each of which needs a lookup.
 */
#ifndef ELF_SECTION_AT_H
#define ELF_SECTION_AT_H

#include "elf/file.h"

struct elf_span {
	uint64_t start, last; /* inclusive */
	uint32_t section;
};

/* Builds f->spans. An object file has no addresses, and gets no list. */
void elf_spans_build(struct elf_file *f);

#endif
