/* SPDX-License-Identifier: MIT */
/* Facts about registers across functions: which registers a call of a function may change, and which are live at an
 * address. */
#ifndef ANALYSIS_ADDRESSES_CLOBBERS_H
#define ANALYSIS_ADDRESSES_CLOBBERS_H

#include "analysis/addresses/function.h"

/*
 * The registers that a call of each function may change, according to the code of the function and of the functions
 * that it calls, as far as they are in the file. The result is a subset of what the ABI allows. Results are cached per
 * function. Not thread-safe.
 */
struct func_clobbers {
	const struct elf_file *file;
	struct func_list *list;
	uint8_t *known; /* per function: state of `mask`: 0 not computed, 1 being computed, 2 valid */
	bool *vague;    /* per function: its bounds are uncertain, so the compiler may have assumed a smaller mask */
	uint16_t *mask; /* per function: the result of func_clobbers() */
	unsigned depth; /* current depth of the recursion over calls */
	struct func_lives **lives; /* per function: the cached results of func_live(); null: not computed yet */
};
/* Prepares *c, which then refers to *f and *l. func_clobbers_free() frees it. */
void func_clobbers_init(struct func_clobbers *c, const struct elf_file *f, struct func_list *l);
void func_clobbers_free(struct func_clobbers *c);
/* Returns the mask of the caller-saved registers that a call of function `callee` (an index in the list) may change. */
uint16_t func_clobbers(struct func_clobbers *c, int32_t callee);
/* Is `addr` the start of function number `fn`? */
static inline bool func_is_start(const struct func_clobbers *c, int32_t fn, uint64_t addr)
{
	return c->list->funcs[fn].start == addr;
}
/* Returns the mask of the registers that are live at `addr` in function number `fn`, i.e. whose values may be used from
 * there on. At points where control leaves the function, the live registers are those that the ABI names. Returns
 * 0xffff if nothing is known. */
uint16_t func_live(const struct func_clobbers *c, int32_t fn, uint64_t addr);

#endif
