/* SPDX-License-Identifier: MIT */
/* Symbols by address, for many look-ups in one file: elf_describe() goes through all symbols each time. */
#ifndef ELF_SYMBOLS_H
#define ELF_SYMBOLS_H

#include "elf/file.h"

struct symbol_index {
	const struct elf_symbol **list; /* by (section, value); of one place the best name first */
	size_t count;
};

/* What an index is about. */
typedef bool symbol_wanted(const struct elf_file *f, const struct elf_symbol *s);
/* A function that is defined here and has a name. */
bool symbol_is_function(const struct elf_file *f, const struct elf_symbol *s);
/* That, or an object. */
bool symbol_is_place(const struct elf_file *f, const struct elf_symbol *s);

/* Of the symbol table, or where there is none of the dynamic one. */
int symbol_index_build(const struct elf_file *f, symbol_wanted *wanted, struct symbol_index *out, struct error *e);
/* Of the dynamic symbol table. */
int symbol_index_build_dynamic(const struct elf_file *f, symbol_wanted *wanted, struct symbol_index *out, struct error *e);
/* ... with those alone that hold one of some places: what is said of these is the same. */
struct symbol_place {
	uint32_t section; /* ET_REL: addr is an offset in it */
	uint64_t addr;
};
int symbol_index_build_of(const struct elf_file *f, symbol_wanted *wanted, struct symbol_place *places, size_t count,
                          struct symbol_index *out, struct error *e);
void symbol_index_free(struct symbol_index *x);

/* How many are at an address (ET_REL: offset in `section`) or before it, in the order of the list. */
size_t symbol_index_above(const struct symbol_index *x, uint32_t section, uint64_t addr);
/* The nearest before an address that holds it, or null. */
const struct elf_symbol *symbol_index_find(const struct symbol_index *x, uint32_t section, uint64_t addr);
/* "main", "main+0x4"; else "". */
void symbol_index_name(const struct symbol_index *x, uint32_t section, uint64_t addr, char *out, size_t size);
/* ... else ".text+0x12", as elf_describe() says it. */
void symbol_index_describe(const struct symbol_index *x, const struct elf_file *f, uint32_t section, uint64_t addr,
                           char *out, size_t size);

#endif
