/* SPDX-License-Identifier: MIT */
/*
 * Finds the symbols that contain one of a list of addresses: each symbol of a file is examined once, and only those
 * that are needed are kept. symbol_scan_file() reads the symbol table of a file directly, if nothing else can name its
 * code.
 */
#ifndef DWARF_SYMBOL_SCAN_H
#define DWARF_SYMBOL_SCAN_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A symbol that is kept: its name and its range. */
struct named_range {
	uint64_t start, end; /* start == end: the symbol has no size */
	const char *name;
	uint64_t limit; /* for a symbol without a size, the end of its section; otherwise 0 */
	uint8_t rank;   /* of several symbols at one address, the one with the lowest rank wins */
};

struct symbol_scan {
	const uint64_t *wanted; /* sorted */
	size_t wanted_count;
	uint64_t *nearest; /* for each wanted address, twice the start of the symbol nearest before it, plus 1 if that
	                      symbol has a size */
	struct named_range *list; /* the symbols that are kept */
	size_t count, capacity;
	char **owned; /* names that symbol_scan_file() has read */
	size_t owned_count, owned_capacity;
};

/* The caller keeps `wanted`, which must live as long as the scan. Returns false if out of memory. */
bool symbol_scan_begin(struct symbol_scan *s, const uint64_t *wanted, size_t count);
/* Examines a symbol of a section that ends at `limit`. Returns true if the symbol contains one of the addresses. */
bool symbol_scan_has(struct symbol_scan *s, uint64_t start, uint64_t size, uint64_t limit);
/* Keeps a symbol for which symbol_scan_has() returned true. `name` must live as long as the scan. */
void symbol_scan_keep(struct symbol_scan *s, const Elf64_Sym *sym, uint64_t start, uint64_t limit, const char *name);
/* Ends the scan: no more symbols follow. */
void symbol_scan_end(struct symbol_scan *s);
/* Returns the name of the symbol that a wanted address belongs to, or null if there is none. A symbol without a size
 * extends to the next one, or to the end of its section. */
const char *symbol_scan_find(const struct symbol_scan *s, uint64_t at);
void symbol_scan_free(struct symbol_scan *s);

/* May the symbol be that of a function? */
bool symbol_scan_fits(const Elf64_Sym *sym);

/* The results of symbol_scan_file(). */
enum symbol_file {
	SYMBOL_FILE_DONE, /* all symbols have been examined, and symbol_scan_end() has been called */
	SYMBOL_FILE_MORE, /* the file has DWARF, a debug file, or .gnu_debugdata, which only libdw can read */
	SYMBOL_FILE_BAD,  /* the file cannot be read, or out of memory */
};
enum symbol_file symbol_scan_file(struct symbol_scan *s, const char *path, int fd);

#endif
