/* SPDX-License-Identifier: MIT */
/* Reads types from DWARF: the members of a variable's struct, and the arguments and results of functions. */
#ifndef DWARF_TYPES_H
#define DWARF_TYPES_H

#include "dwarf/lines.h"

enum member_kind {
	MEMBER_SCALAR, /* an integer, a pointer, an enumeration, a floating-point number */
	MEMBER_ARRAY,  /* an array of scalars */
	MEMBER_STRUCT, /* a struct, a union, or an array of these */
};

struct member {
	char *name;
	uint64_t off, size; /* bytes, from the start of the variable */
	enum member_kind kind;
	bool indexed; /* it is or contains an array */
};

/* A struct inside a variable. The list of members holds its members instead of the struct itself. */
struct nested {
	uint64_t from, to; /* from the start of the variable; to: exclusive */
	bool indexed;      /* it contains an array */
};

struct members {
	/* Sorted by offset, and including the members of structs inside structs. Empty: the variable is no struct, or DWARF
	 * does not know it. */
	struct member *list;
	size_t count, capacity;
	struct nested *nested; /* in no order */
	size_t nested_count, nested_capacity;
	bool known; /* DWARF has the variable's type, so that it is no struct if it has no members */
};

/* Finds the members of the struct at an address of a linked file. `l` may be null. */
void members_find(struct lines *l, uint64_t addr, uint64_t size, struct members *out);
void members_free(struct members *m);
/* Returns the reason why DWARF does not have the types of a file's variables, as a phrase for messages. `l` may be
 * null. */
const char *members_missing_why(struct lines *l, const struct elf_file *f);
/* Returns the member that contains a byte, or null if none does, as in the padding between two members. */
const struct member *member_at(const struct members *m, uint64_t off);
/* Is the member, or a struct inside the variable that contains it, an array, or does one of them contain an array? */
bool member_is_indexed(const struct members *all, const struct member *m);

/* The bytes at which indexing of an array in a variable begins: those of its first element. */
struct index_place {
	uint64_t from, to; /* from the start of the variable; to: exclusive */
};

struct indexes {
	struct index_place *list; /* in no order; places may overlap */
	size_t count, capacity;
	bool known; /* DWARF describes the variable completely: it has no other arrays */
};

/* Finds the arrays of the variable at an address of a linked file. `l` may be null. */
void indexes_find(struct lines *l, uint64_t addr, struct indexes *out);
void indexes_free(struct indexes *x);

struct function_types;

/* Reads the functions that a file's DWARF declares. Returns null if `l` is null. The result refers to *l. */
struct function_types *function_types_read(struct lines *l, const struct elf_file *f);
void function_types_free(struct function_types *t);
/* Returns the greatest number of general registers in which the function at an address (ET_REL: an offset in `section`)
 * may return a value. */
unsigned function_returned(const struct function_types *t, uint32_t section, uint64_t addr);
/* Returns the greatest number of general registers in which the function at an address may take arguments, or -1 if
 * that is not known. It is known only for functions that may have callers outside the file, and so keep to the ABI. */
int function_arguments(const struct function_types *t, uint32_t section, uint64_t addr);

/* Returns the greatest number of general registers in which a function of another module may take arguments, by its
 * declarations in the file's DWARF; -1 if there is none, or if one of them leaves the arguments open. */
int function_import_arguments(const struct function_types *t, const char *name);

#endif
