/* SPDX-License-Identifier: MIT */
/* The plugin of swaps.c: sites of one of the program's variables in another module, on two pages. */
#include <etch/imv.h>

#include "lib/swaps.h"

extern ETCHED uint32_t shared;

SWEEP(sweep, shared, PAGE_OF_SITES(1, 2) SITES_OF(20))

int plugin_check(unsigned n);

/* Number of wrong sweeps. */
int plugin_check(unsigned n)
{
	int wrong = 0;

	while (n--)
		wrong += !sweep_ok(&progress_of_shared, sweep);
	return wrong;
}
