// SPDX-License-Identifier: MIT
/*
 * Runs what generate_reads.py wrote. Every read exists twice: of an etched object, and
 * of a plain shadow of it that is set in step. Rounds of random sets go between
 * rounds of reads. Prints each value, so that the outputs of differently
 * processed programs can be compared, and exits 1 where a value differs from its
 * shadow's (which would be wrong in all of them alike).
 *
 * usage: program SEED ROUNDS; standard error: counts of etch_info.
 */
#include "driver.h"

#include <etch/imv.h>
#include <stdio.h>
#include <stdlib.h>

const uint64_t gen_table[16] = {
	3, 1, 4, 1, 5, 9, 2, 6, 0xffffffffffffffff, 0x80000000, 0x7fffffff, 0x8000000000000000, 0, 17, 19, 23,
};

uint64_t gen_mix2(uint64_t a, uint64_t b)
{
	return (a ^ (b << 13 | b >> 51)) * 0x9e3779b97f4a7c15ull;
}

uint64_t gen_mix8(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h)
{
	return gen_mix2(gen_mix2(gen_mix2(a, b), gen_mix2(c, d)), gen_mix2(gen_mix2(e, f), gen_mix2(g, h)));
}

static uint64_t state;
static uint64_t rnd(void) /* xorshift64* */
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1dull;
}

static uint64_t value(void)
{
	static const uint64_t extremes[] = {
		0, 1, 2, 3, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000,
		0xffffffff, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffff80000000,
		0xffffffff7fffffff, 0xffffffffffffffff,
	};
	uint64_t r = rnd();

	if (r & 1)
		return extremes[(r >> 8) % (sizeof(extremes) / sizeof(*extremes))];
	return (uint64_t)((int64_t)rnd() >> (r >> 8 & 63));
}

static int failed;

static void differ(void *arg, const void *site, const void *object)
{
	(void)arg;
	fprintf(stderr, "differs from memory: site %p, object %p\n", site, object);
	failed = 1;
}

static void reads(unsigned round)
{
	for (unsigned i = 0; i < gen_reads_count; i++) {
		uint64_t a = value(), b = value();
		uint64_t e = gen_reads[i].etched(a, b), s = gen_reads[i].shadow(a, b);

		printf("%u %u %016llx\n", round, i, (unsigned long long)e);
		if (e != s) {
			failed = 1;
			printf("MISMATCH %s: shadow %016llx\n", gen_reads[i].what, (unsigned long long)s);
		}
	}
}

static void check(const char *what, int error)
{
	if (error) {
		failed = 1;
		printf("ERROR %s: %s\n", what, etch_strerror(error));
	}
}

int main(int argc, char **argv)
{
	struct etch_info info = {.size = sizeof(info)};
	unsigned rounds;
	long n;

	if (argc != 3)
		return 2;
	state = strtoull(argv[1], NULL, 0) | 1;
	rounds = (unsigned)atoi(argv[2]);
	reads(0);
	gen_stores(value());
	reads(1);
	check("etch_sync", gen_sync());
	for (unsigned round = 2; round < rounds + 2; round++) {
		for (unsigned i = 0; i < gen_sets_count; i++)
			if (rnd() % 3 == 0)
				check(gen_sets[i].what, gen_sets[i].set(value()));
		reads(round);
		if (round == rounds / 2) { /* a phase of plain stores, and back */
			check("etch_release", gen_release());
			gen_stores(value());
			reads(1000 + round);
			check("etch_sync", gen_sync());
			reads(2000 + round);
		}
	}
	n = etch_verify(differ, NULL);
	if (n < 0)
		printf("ERROR etch_verify: %s\n", etch_strerror((int)-n));
	if (n || failed) {
		printf("FAILED\n");
		return 1;
	}
	if (etch_info(&info))
		return 1;
	fprintf(stderr, "sites=%lu armed=%lu unfit=%lu loads=%lu fixed=%lu patched_at_start=%lu\n", info.sites, info.armed,
	        info.unfit, info.loads, info.fixed, info.patched_at_start);
	return 0;
}
