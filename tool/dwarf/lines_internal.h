/* SPDX-License-Identifier: MIT */
/* Shared by lines.c, types.c and function_types.c. */
#ifndef DWARF_LINES_INTERNAL_H
#define DWARF_LINES_INTERNAL_H

#include <elfutils/libdwfl.h>

#include "dwarf/types.h"

/* Returns libdwfl's module of the file. */
Dwfl_Module *lines_module(struct lines *l);
/* Converts an address (ET_REL: an offset in `section`) to libdwfl's address. Returns false if there is no such
 * section. */
bool lines_address(struct lines *l, uint32_t section, uint64_t addr, Dwarf_Addr *out);

/* A variable at a fixed address. */
struct variable_die {
	Dwarf_Addr addr;
	size_t order; /* its place in the order in which DWARF has the variables */
	Dwarf_Die die;
};

/* The variables of a file. types.c reads them when the first one is asked for. */
struct variable_dies {
	struct variable_die *list; /* sorted by address, then by order */
	size_t count, capacity;
	bool read;
};

/* Returns the place for the variables of the file, which lines_close() frees. */
struct variable_dies *lines_variables(struct lines *l);

/* ---- types.c, for function_types.c ---- */

/* The greatest number of DIEs that are read in one file. */
#define DIES_MOST (1u << 24)

/* Finds the type of a DIE without typedefs and qualifiers. */
bool type_of(Dwarf_Die *die, Dwarf_Die *type);
/* Does one register hold a value of this type? */
bool type_is_scalar(Dwarf_Die *type);
/* Reads the value of an attribute. Returns false if it is not a constant. */
bool type_constant(Dwarf_Die *die, unsigned name, Dwarf_Word *value);

#endif
