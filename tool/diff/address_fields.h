/* SPDX-License-Identifier: MIT */
/* Fields of an instruction that hold an address or a distance, and what they refer to. */
#ifndef DIFF_ADDRESS_FIELDS_H
#define DIFF_ADDRESS_FIELDS_H

#include "diff/body.h"

#define OPERANDS_MOST 3 /* per instruction; two occur in practice */

/* What the field refers to. */
enum operand_how {
	BY_PLACE,
	BY_SYMBOL, /* a relocation's symbol and addend */
	BY_THREAD, /* an offset from the thread pointer */
};

/* A field of an instruction that holds an address or a distance, not a number. */
struct operand {
	uint8_t at, len; /* offset in the bytes, size */
	uint8_t how;
	bool branch;
	uint32_t class; /* CLASS_*: what the field holds, e.g. an address, a distance, or that of a GOT slot */
	const struct elf_symbol *symbol;
	int64_t addend; /* BY_THREAD: offset from the thread pointer */
	struct place place;
};

/* Finds the address fields of an instruction; out has room for OPERANDS_MOST. Returns their number. */
unsigned operands_find(const struct image *im, const struct function *fn, const struct normal *n, struct operand *out);

/* Makes the reference of an operand. `text`, if not null, gets its name for output. */
void operand_ref(const struct body_side *side, const struct normal *n, const struct operand *o, struct xref *out,
                 char *text, size_t size);

#endif
