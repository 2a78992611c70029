/* SPDX-License-Identifier: MIT */
/* What an operand refers to, said in a way that does not depend on where it lies. */
#ifndef DIFF_REFS_H
#define DIFF_REFS_H

#include "diff/places.h"

enum ref_kind {
	REF_NONE,
	REF_INSIDE,   /* code of the same function: value = its address */
	REF_FUNCTION, /* of this file: value = its number; more = 0, or a hash of the code there */
	REF_NAMED,    /* a symbol: value = hash of its name; more = offset */
	REF_CONTENT,  /* read-only bytes: value = their hash */
	REF_TABLE,    /* a jump table: value = address, more = number of entries */
	REF_DATA,     /* data without a name: value = address, more = section (TLS: | PLACE_TLS) */
	REF_NUMBER,   /* no place in this file: value */
};

#define PLACE_TLS 0x80000000u

struct xref {
	uint64_t value;
	uint32_t more;
	uint32_t insn; /* number of the instruction in its function */
	uint32_t kind; /* enum ref_kind */
};

/* What is known about the operand. */
struct ref_use {
	uint32_t func;   /* that it is in */
	unsigned access; /* bytes accessed there, 0: its address is taken, or more than that is not known */
	const struct place *own; /* all data places of the function, sorted */
	size_t own_count;
};

/* `text`, unless it is null, gets the same for people. */
void ref_place(const struct image *im, struct place at, const struct ref_use *use, struct xref *out, char *text,
               size_t size);
/* ET_REL: symbol + addend of a relocation. */
void ref_symbol(const struct image *im, const struct elf_symbol *s, int64_t addend, const struct ref_use *use,
                struct xref *out, char *text, size_t size);
/* Linked: an offset from the thread pointer. False: nothing is known of it. */
bool ref_thread(const struct image *im, int64_t offset, struct xref *out, char *text, size_t size);

/* Linked: are both addresses the start, or both the end, of a section of one name? An address
 * may be the end of one and the start of another. */
bool ref_bounds_meet(const struct image *old, uint64_t a, const struct image *new, uint64_t b);

#endif
