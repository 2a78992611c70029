/* SPDX-License-Identifier: MIT */
/* Types from DWARF: the members of a variable's struct, and what functions take and return. */
#ifndef DWARF_TYPES_H
#define DWARF_TYPES_H

#include "dwarf/lines.h"

enum member_kind {
	MEMBER_SCALAR, /* an integer, a pointer, an enumeration, a floating-point number */
	MEMBER_ARRAY,  /* an array of such */
	MEMBER_STRUCT, /* a struct, a union, or an array of these */
};

struct member {
	char *name;
	uint64_t off, size; /* bytes, from the start of the variable */
	enum member_kind kind;
	bool indexed; /* it is or contains an array */
};

/* A struct inside a variable, whose members are in the list of members in its place. */
struct nested {
	uint64_t from, to; /* from the start of the variable; to: exclusive */
	bool indexed;      /* it contains an array */
};

struct members {
	/* By offset, those of structs inside structs too; empty: the variable is no struct, or DWARF does not know it. */
	struct member *list;
	size_t count, capacity;
	struct nested *nested; /* in no order */
	size_t nested_count, nested_capacity;
	bool known; /* DWARF has the variable's type: without members it is no struct */
};

/* The members of the struct at an address of a linked file. `l` may be null. */
void members_find(struct lines *l, uint64_t addr, uint64_t size, struct members *out);
void members_free(struct members *m);
/* Why DWARF does not have the types of a file's variables, a phrase for messages. `l` may be null. */
const char *members_missing_why(struct lines *l, const struct elf_file *f);
/* The member that has a byte; null: none, or the padding between two. */
const struct member *member_at(const struct members *m, uint64_t off);
/* Is a member, or a struct around it inside the variable, an array, or contains one? */
bool member_is_indexed(const struct members *all, const struct member *m);

/* Bytes at which an index of an array in a variable begins: those of its first element. */
struct index_place {
	uint64_t from, to; /* from the start of the variable; to: exclusive */
};

struct indexes {
	struct index_place *list; /* in no order; places may overlap */
	size_t count, capacity;
	bool known; /* DWARF tells: the variable has no other arrays */
};

/* The arrays of the variable at an address of a linked file. `l` may be null. */
void indexes_find(struct lines *l, uint64_t addr, struct indexes *out);
void indexes_free(struct indexes *x);

struct function_types;

/* The functions that a file's DWARF declares; null: none. Refers to *l and *f. */
struct function_types *function_types_read(struct lines *l, const struct elf_file *f);
void function_types_free(struct function_types *t);
/* The most general registers that the function at an address (ET_REL: offset in `section`) returns a value in. */
unsigned function_returned(const struct function_types *t, uint32_t section, uint64_t addr);
/* The most general registers that the function at an address takes arguments in; -1: not known. Only for functions that
 * may have callers outside the file, which therefore keep the ABI. */
int function_arguments(const struct function_types *t, uint32_t section, uint64_t addr);

/* The same for a function of another module, by what the file's DWARF declares; -1: not known, or declared
 * differently. */
int function_import_arguments(const struct function_types *t, const char *name);

#endif
