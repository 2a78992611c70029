/* SPDX-License-Identifier: MIT */
#include <etch/branch.h>

#include "parts/use.h"

DEFINE_IMV(int, b) = 0;

static NOINLINE int is_on(void)
{
	if (imv_unlikely(b))
		return 1;
	return 0;
}

static NOINLINE long which(void)
{
	switch (imv_switch(b)) {
	case 0: return 10;
	case 1: return 11;
	case 5: return 15;
	default: return 20;
	}
}

int main(int argc, char **argv)
{
	int other = 5;

	if (is_asked(argc, argv, "refused")) {
		CHECK(imv_set(b, 1) == ETCH_EFORMAT && !is_on() && !_imv_read(b));
		return 0;
	}
	for (int i = 0; i < 100; i++) {
		CHECK(!imv_set(b, 1) && is_on() && which() == 11 && imv_read(b) == 1);
		CHECK(!imv_set(b, 5) && is_on() && which() == 15);
		CHECK(!imv_set(b, 9) && is_on() && which() == 20);
		CHECK(!imv_set(b, 0) && !is_on() && which() == 10);
	}
	if (is_asked(argc, argv, "immediate"))
		CHECK(poke(ETCH_ADDR(b__imv), &other, sizeof(other)) && !is_on() && which() == 10);
	return 0;
}
