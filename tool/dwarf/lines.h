/* SPDX-License-Identifier: MIT */
/* Reads source lines from DWARF, through libdw. */
#ifndef DWARF_LINES_H
#define DWARF_LINES_H

#include "elf/file.h"

struct lines; /* every function accepts null, which stands for a file without DWARF */

/* Returns null if there is no usable line information. */
struct lines *lines_open(const struct elf_file *f);
void lines_close(struct lines *l);
/* Returns the source file, as DWARF names it, and the line of an address (ET_REL: an offset in `section`), or null if
 * they are not known. The name is valid until the next call. */
const char *lines_source(struct lines *l, uint32_t section, uint64_t addr, int *line);
/* Writes "file.c:12", or "-" if the line is not known. */
void lines_find(struct lines *l, uint32_t section, uint64_t addr, char *out, size_t out_size);
/* Writes what lines_find() writes, unless the address is in an inlined function of a system header: then it writes the
 * line that calls that function. */
void lines_find_caller(struct lines *l, uint32_t section, uint64_t addr, char *out, size_t out_size);

/*
 * Does DWARF have a function at an address (ET_REL: an offset in `section`) in a language other than assembly? Sets
 * *start to the start of that range of the function's code which contains the address; it is the same kind of address.
 */
bool lines_compiled(struct lines *l, uint32_t section, uint64_t addr, uint64_t *start);

/* Calls `fn` with the linkage name of each function that DWARF marks as noreturn (DW_AT_noreturn, DWARF 5, 3.3.1),
 * whether the file defines it or only declares it. */
void lines_noreturn(struct lines *l, void (*fn)(void *ctx, const char *name), void *ctx);

#endif
