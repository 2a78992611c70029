/* SPDX-License-Identifier: MIT */
/* Finds the fields of an instruction that hold an address or a distance, and the place to which each refers. */
#ifndef DIFF_ADDRESS_FIELDS_H
#define DIFF_ADDRESS_FIELDS_H

#include "diff/body.h"

#define OPERANDS_MOST 3 /* greatest number of such fields in an instruction; in practice there are at most two */

/* How a field determines the place to which it refers. */
enum operand_how {
	BY_PLACE,
	BY_SYMBOL, /* by the symbol and addend of a relocation */
	BY_THREAD, /* by an offset from the thread pointer */
};

/* A field of an instruction that holds an address or a distance, not a plain number. */
struct operand {
	uint8_t at, len; /* at: offset in the instruction's bytes; len: size in bytes */
	uint8_t how;
	bool branch;
	uint32_t class; /* CLASS_*: the kind of the value, e.g. an address, a distance, or the distance to a GOT slot */
	const struct elf_symbol *symbol;
	int64_t addend; /* with BY_THREAD: the offset from the thread pointer */
	struct place place;
};

/* Finds the address fields of an instruction; `out` has OPERANDS_MOST elements. Returns their number. */
unsigned operands_find(const struct image *im, const struct function *fn, const struct normal *n, struct operand *out);

/* Makes the reference of an operand. If `text` is not null, also writes the name for output to it. */
void operand_ref(const struct body_side *side, const struct normal *n, const struct operand *o, struct xref *out,
                 char *text, size_t size);

#endif
