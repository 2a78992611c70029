/* SPDX-License-Identifier: MIT */
/*
 * Which code may run after a program's calls of etch_sync and etch_seal. All other code is its set-up, whose stores do
 * not keep these calls from arming a field.
 */
#ifndef SITE_START_UP_CODE_H
#define SITE_START_UP_CODE_H

#include "site/site.h"

struct setup {
	struct scan *s;
	bool known;      /* otherwise all code may run after a call of etch_sync */
	uint8_t *whole;  /* per function: all of it may run after */
	uint8_t **after; /* per function: which instructions; null: none, or `whole` */
	uint8_t *init;   /* per function: ETCH_INIT, or all that lead there are; null: none */
};

/*
 * Follows calls and jumps from after the calls; where a function returns, into its callers. Functions whose address is
 * taken, and those that other modules can name unless the file is said to be closed, may run at any time. Not known:
 * for a file without main, without its symbols, or in which a function does not decode.
 */
void setup_find(struct setup *u, struct scan *s);
/* May this instruction run after such a call? */
bool setup_runs_after(const struct setup *u, uint32_t section, uint64_t addr);
/* Is it in a function that the program says to run only before, or in one that only such lead to? */
bool setup_is_init(const struct setup *u, uint32_t section, uint64_t addr);
void setup_free(struct setup *u);

#endif
