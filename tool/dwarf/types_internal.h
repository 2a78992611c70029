/* SPDX-License-Identifier: MIT */
/* Shared by types.c and function_types.c. */
#ifndef DWARF_TYPES_INTERNAL_H
#define DWARF_TYPES_INTERNAL_H

#include "dwarf/lines_internal.h"
#include "dwarf/types.h"

/* The greatest number of DIEs that are read in one file. */
#define DIES_MOST (1u << 24)

/* Finds the type of a DIE without typedefs and qualifiers. */
bool type_of(Dwarf_Die *die, Dwarf_Die *type);
/* Does one register hold a value of this type? */
bool type_is_scalar(Dwarf_Die *type);
/* Reads the value of an attribute. Returns false if it is not a constant. */
bool type_constant(Dwarf_Die *die, unsigned name, Dwarf_Word *value);

#endif
