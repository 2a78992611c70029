/* SPDX-License-Identifier: MIT */
/* Function symbols by address: for many look-ups in one file (elf_describe() goes through
 * all symbols each time). */
#ifndef ELF_SYMBOLS_H
#define ELF_SYMBOLS_H

#include "elf/file.h"

struct symbol_index {
	const struct elf_symbol **list; /* functions, by (section, value); of one place the best name first */
	size_t count;
};

int symbol_index_build(const struct elf_file *f, struct symbol_index *out, struct error *e);
void symbol_index_free(struct symbol_index *x);
/* The function that holds an address (ET_REL: offset in `section`), or null. */
const struct elf_symbol *symbol_index_find(const struct symbol_index *x, uint32_t section, uint64_t addr);

#endif
