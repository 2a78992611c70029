/* SPDX-License-Identifier: MIT */
/* A reference describes the place that an operand means, in a form that does not depend on addresses. */
#ifndef DIFF_REFS_H
#define DIFF_REFS_H

#include "diff/places.h"

/* Kinds of references. The comments say what the members `value` and `more` of struct xref hold. */
enum ref_kind {
	REF_NONE,
	REF_INSIDE, /* a place in the code of the same function: value = its address */
	/* A function of this file: value = its index; more = 0, or a hash of the code at the place inside it. */
	REF_FUNCTION,
	REF_NAMED,   /* a symbol: value = hash of its name, more = offset */
	REF_CONTENT, /* read-only bytes: value = their hash */
	REF_TABLE,   /* a jump table: value = address, more = number of entries << 4 | size of an entry */
	REF_DATA,    /* data without a symbol: value = address, more = section (TLS: | PLACE_TLS) */
	REF_NUMBER,  /* a number that is not a place in this file: value = the number */
};

#define PLACE_TLS 0x80000000u

/* A reference. */
struct xref {
	uint64_t value;
	uint32_t more;
	uint32_t insn;    /* index of the token in the body */
	uint32_t kind;    /* enum ref_kind */
	uint32_t section; /* REF_TABLE: section of the table */
};

/* How an operand uses the place. */
struct ref_use {
	uint32_t func;           /* index of the function that contains the operand, or NO_FUNC */
	unsigned access;         /* number of bytes accessed; 0: the address is taken, or the access is unknown */
	const struct place *own; /* all data addresses in the operands of that function, sorted */
	size_t own_count;
};

/* Makes a reference to a place. If `text` is not null, also writes the name for output to it. */
void ref_place(const struct image *im, struct place at, const struct ref_use *use, struct xref *out, char *text,
               size_t size);
/* The target of a relocation. */
struct symbol_offset {
	const struct elf_symbol *symbol;
	int64_t addend;
};
/* ET_REL: makes a reference to the target of a relocation. */
void ref_symbol(const struct image *im, struct symbol_offset at, const struct ref_use *use, struct xref *out,
                char *text, size_t size);
/*
 * Linked files: makes a reference to an offset from the thread pointer. Returns false if the offset is not in the TLS
 * block.
 */
bool ref_thread(const struct image *im, int64_t offset, struct xref *out, char *text, size_t size);

/*
 * Linked files: true if address a of the old file and b of the new one are both the start, or both the end, of a
 * section with the same name. One address may be the end of a section and the start of another.
 */
bool ref_bounds_meet(const struct image *old, uint64_t a, const struct image *new, uint64_t b);

#endif
