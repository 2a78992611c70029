/* SPDX-License-Identifier: MIT */
#include <etch/imv.h>

#include "parts/use.h"

ETCHED int later;

static NOINLINE int get(void) { return later + 1; }

int main(int argc, char **argv)
{
	int other = 77, same = 9;

	later = argc + 4;
	CHECK(get() == argc + 5 && !etch_sync(&later, sizeof(later)) && get() == argc + 5);
	CHECK(!etch_set(&later, 9) && get() == 10);
	if (is_asked(argc, argv, "immediate")) {
		CHECK(poke(ETCH_ADDR(later), &other, sizeof(other)) && get() == 10);
		CHECK(poke(ETCH_ADDR(later), &same, sizeof(same)));
	}
	CHECK(!etch_release(&later, sizeof(later)));
	later = 11;
	CHECK(get() == 12);
	return 0;
}
