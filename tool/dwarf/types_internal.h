/* SPDX-License-Identifier: MIT */
/* Shared by types.c and function_types.c. */
#ifndef DWARF_TYPES_INTERNAL_H
#define DWARF_TYPES_INTERNAL_H

#include "dwarf/lines_internal.h"
#include "dwarf/types.h"

/* DIEs looked at in one file. */
#define DIES_MOST (1u << 24)

/* The type of a DIE without typedefs and qualifiers. */
bool type_of(Dwarf_Die *die, Dwarf_Die *type);
/* A type that one register holds. */
bool type_is_scalar(Dwarf_Die *type);
/* The value of an attribute, if it is a constant. */
bool type_constant(Dwarf_Die *die, unsigned name, Dwarf_Word *value);

#endif
