/* SPDX-License-Identifier: MIT */
/* Interprocedural register facts: which registers a callee may change, and which are live at an address. */
#ifndef ANALYSIS_ADDRESSES_CLOBBERS_H
#define ANALYSIS_ADDRESSES_CLOBBERS_H

#include "analysis/addresses/function.h"

/*
 * Which registers a call of a function may change, by the function's code and by that of the functions that it calls,
 * as far as they are in the file; this is a subset of what the ABI allows. The results are cached per function. Not
 * thread-safe.
 */
struct func_clobbers {
	const struct elf_file *file;
	struct func_list *list;
	uint8_t *known; /* per function: 0 mask not computed, 1 being computed, 2 valid */
	bool *vague;    /* per function: its bounds are uncertain, so that the compiler may have known a smaller mask */
	uint16_t *mask; /* per function: the result of func_clobbers() */
	unsigned depth; /* of the recursion over calls */
	struct func_lives **lives; /* per function: results of func_live(), or null */
};
/* The struct refers to *f and *l. func_clobbers_free() frees it. */
void func_clobbers_init(struct func_clobbers *c, const struct elf_file *f, struct func_list *l);
void func_clobbers_free(struct func_clobbers *c);
/* Returns the mask of the caller-saved registers that a call of function `callee` (an index in the list) may change. */
uint16_t func_clobbers(struct func_clobbers *c, int32_t callee);
static inline bool func_is_start(const struct func_clobbers *c, int32_t fn, uint64_t addr)
{
	return c->list->funcs[fn].start == addr;
}
/* Returns the mask of the registers that are live at `addr` in function number `fn`: their values may be used from
 * there on. Where control leaves the function, the ABI says which registers are used. Returns 0xffff where nothing is
 * known. */
uint16_t func_live(const struct func_clobbers *c, int32_t fn, uint64_t addr);

#endif
