/* SPDX-License-Identifier: MIT */
/*
 * Decides which uses of an etched object become sites that can be patched, and in which form (etch/imv.h) each is
 * recorded.
 */
#ifndef SITE_CLASSIFY_H
#define SITE_CLASSIFY_H

#include "site/site.h"

/* The scan of one function. */
struct function_scan {
	struct scan *scan;
	const struct track_func *func;
	uint8_t *live_flags; /* for each instruction, the flags live after it; made for the first compare; malloc'd */
	int stack_even;      /* whether the stack pointer is even; -1: not known yet */
	int in_memory; /* whether the kernel stores by addresses that the function puts into memory; -1: not known yet */
};

/* Sets the form of the load that `u` describes, or the reason why it has no form. */
void site_load_classify(struct function_scan *c, const struct use *u, struct site *site);
/*
 * Sets the form of the call or jump through a slot of an object that `u` describes, or the reason why it has no form.
 */
void site_call_classify(struct function_scan *c, const struct use *u, struct site *site);

#endif
