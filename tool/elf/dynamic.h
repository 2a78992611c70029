/* SPDX-License-Identifier: MIT */
/* The dynamic relocations of a linked file: the places that the dynamic linker (or a static program's start-up code)
 * writes.
 */
#ifndef ELF_DYNAMIC_H
#define ELF_DYNAMIC_H

#include "elf/file.h"

/* A dynamic relocation. An entry of SHT_RELR becomes R_X86_64_RELATIVE with the addend that the file holds at the
 * place. */
struct dynamic_reloc {
	uint64_t place; /* virtual address that is written */
	uint64_t addend;
	uint32_t type;
	const struct elf_symbol *symbol; /* null: the relocation names no symbol, or one of a table other than .dynsym */
};

/*
 * Reads the relocations in a linked file's loaded relocation sections whose 8 bytes overlap [lo, hi), sorted by place;
 * malloc'd. Returns 0, or -1 and a message if one of the sections is malformed.
 */
int dynamic_relocs_read(const struct elf_file *f, uint64_t lo, uint64_t hi, struct dynamic_reloc **out, size_t *count,
                        struct error *e);

#endif
