/* SPDX-License-Identifier: MIT */
#include <etch/pv.h>

#include "parts/use.h"

struct ops {
	int (*one)(int);
	int (*two)(int);
};

static NOINLINE int add(int x) { return x + 1; }
static NOINLINE int twice(int x) { return 2 * x; }

DEFINE_PV_OPS(struct ops, ops) = {add, twice};

static NOINLINE int both(int x) { return pv_call(ops, one, x) + 100 * pv_call(ops, two, x); }

int main(int argc, char **argv)
{
	int (*other)(int) = twice;

	CHECK(both(3) == 604);
	CHECK(!pv_set(ops.one, twice) && both(3) == 606 && !pv_set(ops.one, add) && both(4) == 805);
	if (is_asked(argc, argv, "immediate"))
		CHECK(poke(ETCH_ADDR(ops.one), &other, sizeof(other)) && both(4) == 805);
	return 0;
}
