/* SPDX-License-Identifier: MIT */
/* Source lines from DWARF, through libdw. */
#ifndef DWARF_LINES_H
#define DWARF_LINES_H

#include "elf/file.h"

struct lines; /* every function accepts null: a file without DWARF */

/* Null when there is no usable line information. */
struct lines *lines_open(const struct elf_file *f);
void lines_close(struct lines *l);
/* The source file, as named in DWARF, and the line of an address (ET_REL: offset in
 * `section`); null: not known. Valid until the next call. */
const char *lines_source(struct lines *l, uint32_t section, uint64_t addr, int *line);
/* "file.c:12", or "-". */
void lines_find(struct lines *l, uint32_t section, uint64_t addr, char *out, size_t out_size);
/* The same, but if the address is in a function of a system header that was inlined, the line that calls it. */
void lines_find_caller(struct lines *l, uint32_t section, uint64_t addr, char *out, size_t out_size);

/*
 * True if DWARF has a function at an address (ET_REL: offset in `section`) in a language other than
 * assembly. *start: the start of the range of its code that holds the address (same kind of address).
 */
bool lines_compiled(struct lines *l, uint32_t section, uint64_t addr, uint64_t *start);

/* Calls `fn` with the linkage name of each function that DWARF marks as noreturn (DW_AT_noreturn,
 * DWARF 5, 3.3.1): defined here or only declared. */
void lines_noreturn(struct lines *l, void (*fn)(void *ctx, const char *name), void *ctx);

#endif
