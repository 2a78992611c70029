// SPDX-License-Identifier: MIT
/*
 * Runs what gen_programs.py wrote: rounds of random sets between rounds of all calls,
 * in one thread. Prints, for each call, its result and what the functions noted that
 * were called. Who processed the program must make no difference to that.
 *
 * usage: program SEED ROUNDS; standard error: counts of etch_info
 */
#include "gen_types.h"

#include <etch/pv.h>
#include <stdio.h>
#include <stdlib.h>

u64 gen_trace;
sigjmp_buf gen_escape;
const char gen_text[256] = "text";
u64 gen_cells[8];

u64 gen_identity(u64 x) { return x; }
u64 gen_square(u64 x) { return x * x + 1; }

static u64 state;
static u64 rnd(void) /* xorshift64* */
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1dull;
}

static unsigned now[1024]; /* target of each slot */
static int failed;

static void check(const char *what, int error)
{
	if (error) {
		failed = 1;
		printf("ERROR %s: %s\n", what, etch_strerror(error));
	}
}

static int callable(unsigned slot) { return now[slot] != gen_slots[slot].null; }

static void calls(unsigned round, const char *file, const struct gen_site *sites, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		u64 a = rnd(), b = rnd();

		if (!callable(sites[i].slot[0]) || !callable(sites[i].slot[1])) {
			printf("%u %s%u null\n", round, file, i);
			continue;
		}
		u64 result = sites[i].call(a, b);

		printf("%u %s%u %016llx %016llx\n", round, file, i, (unsigned long long)result,
		       (unsigned long long)gen_trace);
	}
}

static void all(unsigned round)
{
	calls(round, "c", gen_sites, gen_sites_count);
	calls(round, "i", gen_sites_imv, gen_sites_imv_count);
	calls(round, "x", gen_sites_cxx, gen_sites_cxx_count);
}

static void differ(void *arg, const void *site, const void *object)
{
	(void)arg;
	printf("ERROR site %p differs from memory, object %p\n", site, object);
	failed = 1;
}

int main(int argc, char **argv)
{
	struct etch_info info = {.size = sizeof(info)}, most = info;
	unsigned rounds;
	long n;

	if (argc != 3)
		return 2;
	state = strtoull(argv[1], NULL, 0) | 1;
	rounds = (unsigned)atoi(argv[2]);
	all(0);
	check("etch_sync", gen_sync());
	for (unsigned round = 1; round <= rounds; round++) {
		/* Each slot meets each of its targets, in an order of its own. */
		for (unsigned i = 0; i < gen_slots_count; i++) {
			const struct gen_slot *s = &gen_slots[i];

			now[i] = (round * (2 * (i % 3) + 1) + i) % s->targets;
			check(s->what, s->set(now[i]));
		}
		all(round);
		if (round == rounds / 2) {
			check("etch_release", gen_release());
			all(round);
			check("etch_sync", gen_sync());
		}
		check("etch_info", etch_info(&info));
		if (info.calls_inline > most.calls_inline)
			most.calls_inline = info.calls_inline;
		if (info.calls_direct > most.calls_direct)
			most.calls_direct = info.calls_direct;
	}
	n = etch_verify(differ, NULL);
	if (n || failed) {
		printf("FAILED: etch_verify says %ld\n", n);
		return 1;
	}
	fprintf(stderr, "calls=%lu direct=%lu inline=%lu fixed=%lu\n", info.calls, most.calls_direct, most.calls_inline,
	        info.calls_fixed);
	return 0;
}
