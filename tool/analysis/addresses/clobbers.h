/* SPDX-License-Identifier: MIT */
/* Interprocedural register facts: which registers a callee may change, and which are live at an address. */
#ifndef ANALYSIS_ADDRESSES_CLOBBERS_H
#define ANALYSIS_ADDRESSES_CLOBBERS_H

#include "analysis/addresses/function.h"

/*
 * Which registers a call of a function may change, by its code and that of the functions that it calls, as far as they
 * are in the file; a subset of what the ABI allows. Cached per function. Not thread-safe.
 */
struct func_clobbers {
	const struct elf_file *file;
	const struct func_list *list;
	uint8_t *known; /* per function: mask is 0 not computed, 1 being computed, 2 valid */
	bool *vague;    /* per function: its bounds are uncertain, so the compiler may have known of a smaller mask */
	uint16_t *mask; /* per function: the result of func_clobbers() */
	unsigned depth; /* of the recursion over calls */
	struct func_lives **lives; /* per function: results of func_live(), or null */
};
/* func_clobbers_free() when done. Refers to *f and *l. */
void func_clobbers_init(struct func_clobbers *c, const struct elf_file *f, const struct func_list *l);
void func_clobbers_free(struct func_clobbers *c);
/* Mask of the caller-saved registers that a call of function `callee` (index in the list) may change. */
uint16_t func_clobbers(struct func_clobbers *c, int32_t callee);
static inline bool func_is_start(const struct func_clobbers *c, int32_t fn, uint64_t addr)
{
	return c->list->funcs[fn].start == addr;
}
/* Mask of the registers that are live at `addr` in function number `fn`: their value may be used from there on. Exits
 * of the function use registers by the ABI. 0xffff where nothing is known. */
uint16_t func_live(const struct func_clobbers *c, int32_t fn, uint64_t addr);

#endif
