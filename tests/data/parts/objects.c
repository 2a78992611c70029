/* SPDX-License-Identifier: MIT */
#include <etch/imv.h>

#include "parts/use.h"

ETCHED struct {
	int a;
	long b;
	short c;
	unsigned char d;
	int (*call)(int);
} cfg = {1, 2, 3, 4, 0};

static NOINLINE int add(int x) { return x + 1; }
static NOINLINE long sum(long x) { return x + cfg.a + cfg.b + cfg.c + cfg.d; }
static NOINLINE int is_seven(void) { return cfg.a == 7; }

int main(int argc, char **argv)
{
	int other = 77;

	CHECK(sum(0) == 10 && !is_seven());
	for (int i = 0; i < 20; i++) {
		CHECK(!etch_set(&cfg.a, i) && !etch_set(&cfg.b, i) && !etch_set(&cfg.c, i) && !etch_set(&cfg.d, i));
		CHECK(sum(1) == 1 + 4 * i && is_seven() == (i == 7));
	}
	CHECK(!etch_set(&cfg.call, add) && cfg.call(4) == 5);
	if (is_asked(argc, argv, "immediate"))
		CHECK(poke(ETCH_ADDR(cfg.a), &other, sizeof(other)) && sum(0) == 4 * 19);
	return 0;
}
