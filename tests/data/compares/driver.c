// SPDX-License-Identifier: MIT
/* Calls every generated function with several arguments, for many values of each field; prints what they return. With
 * an argument, seals the object first, so that sites at any alignment are armed. */
#include "compares.h"
#include <stdio.h>

static uint64_t seed = 88172645463325252ull;
static uint64_t hash;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

long __attribute__((noinline)) out(long x, long y)
{
	hash = hash * 31 + (uint64_t)x * 7 + (uint64_t)y;
	return x ^ y << 3;
}

static int64_t value(unsigned round)
{
	static const int64_t near[] = {0, 1, 2, 3, 7, 42, 100, 127, 128, 255, 1000, 32767, 40000, INT32_MAX, INT64_MAX, 5, 9};
	unsigned k = (unsigned)(rnd() % 40);

	if (round < 3)
		return round;
	if (k < 30)
		return (near[rnd() % (sizeof(near) / sizeof(*near))] + (int64_t)(rnd() % 3) - 1) * (rnd() & 1 ? 1 : -1);
	return (int64_t)rnd() >> (rnd() & 63);
}

#define SET(f) (v = value(round), etch_set(&cfg.f, (__typeof__(cfg.f))v))

int main(int argc, char **argv)
{
	struct etch_info info = {.size = sizeof(info)};
	int64_t v;

	(void)argv;
	if (argc > 1 && etch_seal(&cfg, sizeof(cfg)))
		return 2;
	for (unsigned round = 0; round < 60; round++) {
		int err = SET(int8_t) | SET(uint8_t) | SET(int16_t) | SET(uint16_t) | SET(int32_t) | SET(uint32_t) |
		          SET(int64_t) | SET(uint64_t);

		if (err)
			return 3;
		for (unsigned f = 0; f < func_count; f++) {
			hash = 0;
			for (long a = 0; a < 6; a++)
				hash = hash * 131 + (uint64_t)funcs[f](a == 5 ? (long)rnd() : value(99), a);
			printf("%u %u %016llx\n", round, f, (unsigned long long)hash);
		}
	}
	etch_info(&info);
	fprintf(stderr, "sites=%lu armed=%lu verify=%ld\n", (unsigned long)info.sites, (unsigned long)info.armed,
	        etch_verify(NULL, NULL));
	return 0;
}
