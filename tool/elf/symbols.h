/* SPDX-License-Identifier: MIT */
/* An index of symbols by address, for many lookups in one file, since elf_describe() searches all symbols each time. */
#ifndef ELF_SYMBOLS_H
#define ELF_SYMBOLS_H

#include "elf/file.h"

struct symbol_index {
	const struct elf_symbol **list; /* sorted by (section, value); at one address the best name is first */
	size_t count;
};

/* Selects the symbols of an index. */
typedef bool symbol_wanted(const struct elf_file *f, const struct elf_symbol *s);
/* Selects functions that are defined in the file and have a name. */
bool symbol_is_function(const struct elf_file *f, const struct elf_symbol *s);
/* Selects functions that are defined in the file and have a size, so that it is known which addresses are theirs; not
 * IFUNCs. */
bool symbol_is_sized_function(const struct elf_file *f, const struct elf_symbol *s);
/* Selects functions and data objects that are defined in the file and have a name. */
bool symbol_is_place(const struct elf_file *f, const struct elf_symbol *s);

/* Builds an index from .symtab, or from .dynsym if there is no .symtab. */
void symbol_index_build(const struct elf_file *f, symbol_wanted *wanted, struct symbol_index *out);
/* Builds an index from .dynsym. */
void symbol_index_build_dynamic(const struct elf_file *f, symbol_wanted *wanted, struct symbol_index *out);
/* A place for symbol_index_build_of(), which builds an index of those symbols that contain one of `places`. Lookups of
 * these places give the same result as in the index of symbol_index_build(). It sorts `places`. */
struct symbol_place {
	uint32_t section; /* ET_REL: addr is an offset in it */
	uint64_t addr;
};
void symbol_index_build_of(const struct elf_file *f, symbol_wanted *wanted, struct symbol_place *places, size_t count,
                           struct symbol_index *out);
void symbol_index_free(struct symbol_index *x);

/* Returns the number of symbols in the list at or before an address (ET_REL: an offset in `section`). */
size_t symbol_index_above(const struct symbol_index *x, uint32_t section, uint64_t addr);
/* Returns the symbol that contains an address and starts nearest before it, or null. */
const struct elf_symbol *symbol_index_find(const struct symbol_index *x, uint32_t section, uint64_t addr);
/* Writes "main" or "main+0x4", or "" if no symbol contains the address. */
void symbol_index_name(const struct symbol_index *x, uint32_t section, uint64_t addr, char *out, size_t size);
/* Writes "main" or "main+0x4", or, as elf_describe() does, ".text+0x12" if no symbol contains the address. */
void symbol_index_describe(const struct symbol_index *x, const struct elf_file *f, uint32_t section, uint64_t addr,
                           char *out, size_t size);

#endif
