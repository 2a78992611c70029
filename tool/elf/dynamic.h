/* SPDX-License-Identifier: MIT */
/* What the dynamic linker (or a static program's start-up) writes into a file. */
#ifndef ELF_DYNAMIC_H
#define ELF_DYNAMIC_H

#include "elf/file.h"

/* A dynamic relocation; one of SHT_RELR reads as R_X86_64_RELATIVE, with the addend
 * that lies in its place. */
struct dynamic_reloc {
	uint64_t place;  /* virtual address that is written */
	uint64_t addend;
	uint32_t type;
	const struct elf_symbol *symbol; /* null: none, or of a table that the file does not have */
};

/*
 * Those of a linked file's loaded relocation sections whose 8 bytes overlap
 * [lo, hi), by place; malloc'd. -1 and a message when one of the sections is malformed.
 */
int dynamic_relocs_read(const struct elf_file *f, uint64_t lo, uint64_t hi, struct dynamic_reloc **out, size_t *count,
                        struct error *e);

#endif
