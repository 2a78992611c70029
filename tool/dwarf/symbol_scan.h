/* SPDX-License-Identifier: MIT */
/*
 * The symbols that contain one of a list of addresses: each symbol of a file is looked at once, and only those that are
 * needed are kept. symbol_scan_file() reads the symbol table of a file directly, where nothing else can name its code.
 */
#ifndef DWARF_SYMBOL_SCAN_H
#define DWARF_SYMBOL_SCAN_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct named_range {
	uint64_t start, end; /* start == end: the symbol has no size */
	const char *name;
	uint64_t limit; /* of a symbol without size: the end of its section; else 0 */
	uint8_t rank;   /* the lowest of several symbols at one address wins */
};

struct symbol_scan {
	const uint64_t *wanted; /* sorted */
	size_t wanted_count;
	uint64_t *nearest;        /* by address: twice the start of the symbol nearest before it; +1: one that has a size */
	struct named_range *list; /* the symbols that are kept */
	size_t count, capacity;
	char **owned; /* names that symbol_scan_file() has read */
	size_t owned_count, owned_capacity;
};

/* `wanted` stays the caller's, and must be there as long as the scan. False: out of memory. */
bool symbol_scan_begin(struct symbol_scan *s, const uint64_t *wanted, size_t count);
/* Looks at a symbol, of a section that ends at `limit`. True: it contains one of the addresses. */
bool symbol_scan_has(struct symbol_scan *s, uint64_t start, uint64_t size, uint64_t limit);
/* Keeps a symbol of which symbol_scan_has() was true. `name` must be there as long as the scan. */
bool symbol_scan_keep(struct symbol_scan *s, const Elf64_Sym *sym, uint64_t start, uint64_t limit, const char *name);
/* No symbol follows. */
void symbol_scan_end(struct symbol_scan *s);
/* The name of the symbol that a wanted address belongs to; null: none. A symbol without a size extends to the next one,
 * or to the end of its section. */
const char *symbol_scan_find(const struct symbol_scan *s, uint64_t at);
void symbol_scan_free(struct symbol_scan *s);

/* May a symbol be a function's? */
bool symbol_scan_fits(const Elf64_Sym *sym);

enum symbol_file {
	SYMBOL_FILE_DONE, /* the symbols have been looked at, up to symbol_scan_end() */
	SYMBOL_FILE_MORE, /* the file has DWARF, a debug file, or .gnu_debugdata: it takes libdw */
	SYMBOL_FILE_BAD,  /* it cannot be read, or out of memory */
};
enum symbol_file symbol_scan_file(struct symbol_scan *s, const char *path, int fd);

#endif
