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
	uint8_t *whole;  /* for each function: all of it may run after the calls */
	uint8_t **after; /* for each function: which instructions may run after the calls; null: none, or all of them
	                    because of `whole` */
	uint8_t *init;   /* for each function: it is marked by ETCH_INIT, or only marked functions lead to it; null: no
	                    function is marked */
};

/*
 * Finds the code that may run after the calls: follows calls and jumps from the instruction after each call and, where
 * a function returns, continues in its callers. Functions whose address is taken may run at any time; so may those that
 * other modules can name, unless the file is closed. The result is not known for a file without main, without symbols,
 * or with a function that does not decode.
 */
void setup_find(struct setup *u, struct scan *s);
/* May this instruction run after a call of etch_sync or etch_seal? */
bool setup_runs_after(const struct setup *u, uint32_t section, uint64_t addr);
/*
 * Is the instruction in a function that runs only before these calls? The program has said so of the function itself,
 * or only such functions lead to it.
 */
bool setup_is_init(const struct setup *u, uint32_t section, uint64_t addr);
void setup_free(struct setup *u);

#endif
