/* SPDX-License-Identifier: MIT */
/*
 * Finds the code that may run after a program's calls of etch_sync and etch_seal. All other code is the program's
 * set-up, whose stores do not prevent these calls from arming a field.
 */
#ifndef SITE_START_UP_CODE_H
#define SITE_START_UP_CODE_H

#include "site/site.h"

struct setup {
	struct scan *s;
	bool known;      /* false: any code may run after a call of etch_sync */
	uint8_t *whole;  /* for each function, whether all of it may run after the calls */
	uint8_t **after; /* for each function, which instructions may run after the calls; null: none, or all by `whole` */
	uint8_t *init;   /* for each function, whether it is marked by ETCH_INIT, or only such functions lead there; null:
	                    there are none */
};

/*
 * Follows calls and jumps from the instructions after the calls, and into its callers when a function returns.
 * Functions whose address is taken may run at any time, and unless the file is closed, so may those that other modules
 * can name. The result is not known for a file without main, without symbols, or with a function that does not decode.
 */
void setup_find(struct setup *u, struct scan *s);
/* May this instruction run after a call of etch_sync or etch_seal? */
bool setup_runs_after(const struct setup *u, uint32_t section, uint64_t addr);
/* Is the instruction in a function that, as the program says, runs only before these calls, or to which only such
 * functions lead? */
bool setup_is_init(const struct setup *u, uint32_t section, uint64_t addr);
void setup_free(struct setup *u);

#endif
