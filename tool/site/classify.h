/* SPDX-License-Identifier: MIT */
/* Which uses of an etched object become sites that can be patched, and with which form. */
#ifndef SITE_CLASSIFY_H
#define SITE_CLASSIFY_H

#include "site/site.h"

/* The scan of one function. */
struct function_scan {
	struct scan *scan;
	const struct track_func *func;
	uint8_t
		*live_flags; /* per instruction: the flags that are live after it; computed for the first compare; malloc'd */
	int stack_even;  /* -1: not known yet */
	int in_memory;   /* the kernel stores by addresses that this function has put into memory; -1: not known yet */
};

/* Sets the form of a load, or the reason why it has none. */
void site_load_classify(struct function_scan *c, const struct use *u, struct site *site);
/* The same of a call or jump through a slot of an object. */
void site_call_classify(struct function_scan *c, const struct use *u, struct site *site);

/* For a compare of an object, as first operand, with a register whose flags are read as an order: lists it in
 * scan->commuted with the instructions that read its flags, if all of them can be commuted. */
void site_compare_commute(struct function_scan *c, size_t insn);

#endif
