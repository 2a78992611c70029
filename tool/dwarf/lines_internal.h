/* SPDX-License-Identifier: MIT */
/* Shared by lines.c, types.c and function_types.c. */
#ifndef DWARF_LINES_INTERNAL_H
#define DWARF_LINES_INTERNAL_H

#include <elfutils/libdwfl.h>

#include "dwarf/lines.h"

/* Returns libdwfl's module of the file. */
Dwfl_Module *lines_module(struct lines *l);
/* Converts an address (ET_REL: an offset in `section`) to libdwfl's address. Returns false if there is no such
 * section. */
bool lines_address(struct lines *l, uint32_t section, uint64_t addr, Dwarf_Addr *out);

#endif
