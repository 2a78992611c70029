/* SPDX-License-Identifier: MIT */
/* Finds the fields of an instruction that hold an address or a distance, and what they refer to. */
#ifndef DIFF_ADDRESS_FIELDS_H
#define DIFF_ADDRESS_FIELDS_H

#include "diff/body.h"

#define OPERANDS_MOST 3 /* per instruction; at most two occur in practice */

/* The way in which a field states what it refers to. */
enum operand_how {
	BY_PLACE,
	BY_SYMBOL, /* by a relocation's symbol and addend */
	BY_THREAD, /* by an offset from the thread pointer */
};

/* A field of an instruction that holds an address or a distance, not a plain number. */
struct operand {
	uint8_t at, len; /* offset in the instruction's bytes; size */
	uint8_t how;
	bool branch;
	uint32_t class; /* CLASS_*: what the field holds, e.g. an address, a distance, or the distance to a GOT slot */
	const struct elf_symbol *symbol;
	int64_t addend; /* BY_THREAD: offset from the thread pointer */
	struct place place;
};

/* Finds the address fields of an instruction; `out` has OPERANDS_MOST elements. Returns their number. */
unsigned operands_find(const struct image *im, const struct function *fn, const struct normal *n, struct operand *out);

/* Makes the reference of an operand. If `text` is not null, the name for output is written to it. */
void operand_ref(const struct body_side *side, const struct normal *n, const struct operand *o, struct xref *out,
                 char *text, size_t size);

#endif
