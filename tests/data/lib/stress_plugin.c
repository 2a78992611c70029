/* SPDX-License-Identifier: MIT */
/* The plugin of stress.c: sites on one of the program's variables, through the
 * GOT, and a variable of its own. */
#include <etch/imv.h>

#include "lib/stress.h"

DECLARE_IMV(unsigned int, shared);
DEFINE_IMV(unsigned int, own) = 0;

int plugin_check(unsigned n);

__attribute__((noinline)) static uint64_t read_shared(void) { return imv_read(shared); }
__attribute__((noinline)) static unsigned read_own(void) { return imv_read(own); }

/* Number of wrong reads. */
int plugin_check(unsigned n)
{
	int wrong = 0;

	for (unsigned i = 1; i <= n; i++) {
		wrong += read_ok(SHARED, read_shared) == 0;
		if (i % 64 == 0)
			wrong += imv_set(own, i) || read_own() != i;
	}
	return wrong;
}
