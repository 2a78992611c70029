/* SPDX-License-Identifier: MIT */
/*
 * calls: what a call costs, by how its target is known.
 *
 *     calls ROUNDS      prints: variant, ticks of one test of so many calls
 *
 * Each call takes what the one before returned, as calls through an ops table in a
 * row often do; the target adds 1. "alternating" and "random" are an indirect call
 * whose target is now one and now another function.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <etch/pv.h>
#include <string.h>

#define LOOPS 5000u
#define CALLS 8u /* in a loop */
#define NOINLINE __attribute__((noinline))

struct ops {
	/* gcc keeps the address of an object in a register through a loop, but only where
	 * that is the slot's address too: then the call has 2 bytes, where no other fits. */
	long (*first)(long);
	long (*direct)(long);
	void (*nop)(void);
	long (*ident)(long);
	long (*native)(long);
	long (*constant)(long);
	long (*null)(long); /* stays indirect */
};

/* In assembly, so that all of them are the same two instructions with both compilers. */
#define FUNCTION(name)                                                                      \
	long name(long);                                                                    \
	__asm__(".text\n\t.p2align 4\n\t.globl " #name "\n\t.hidden " #name "\n\t"          \
	        ".type " #name ", @function\n" #name ":\n\t.cfi_startproc\n\t"              \
	        "lea 1(%rdi), %rax\n\tret\n\t.cfi_endproc\n\t.size " #name ", . - " #name)
FUNCTION(add_one);
FUNCTION(add_one_too);
FUNCTION(add_one_resolved);
PV_NATIVE(add_one_native, "lea 1(%rdi), %rax");
long add_one_native(long);
static NOINLINE long constant(long x)
{
	(void)x;
	return 5;
}

static long (*resolve(void))(long)
{
	return add_one_resolved;
}
long add_one_ifunc(long) __attribute__((ifunc("resolve")));
long add_one_shared(long); /* of calls-shared.c */

/* The same struct twice, and only one is known to etch. */
struct ops plain = {NULL, add_one, pv_nop, pv_ident_64, add_one_native, constant, add_one};
DEFINE_PV_OPS(struct ops, pv) = {NULL, add_one, pv_nop, pv_ident_64, add_one_native, constant, NULL};

static long (*targets[2])(long) = {add_one, add_one_too};
static unsigned char order[LOOPS * CALLS];

#define TIMES8(x) x x x x x x x x
#define TEST(name, body)                                                                    \
	static NOINLINE __attribute__((aligned(64))) long name(void)                        \
	{                                                                                   \
		const unsigned char *which = order;                                         \
		unsigned n;                                                                 \
		long x = 0;                                                                 \
                                                                                            \
		for (n = 0; n < LOOPS; n++) {                                               \
			TIMES8(body)                                                        \
		}                                                                           \
		(void)which;                                                                \
		return x;                                                                   \
	}

TEST(test_empty, __asm__ __volatile__("" : "+r"(x));)
TEST(test_inline, __asm__ __volatile__("lea 1(%0), %0" : "+r"(x));)
TEST(test_direct, x = add_one(x);)
TEST(test_indirect, x = plain.direct(x);)
TEST(test_alternating, x = targets[*which++](x);)
TEST(test_nop_indirect, plain.nop();)
TEST(test_patched, x = pv.direct(x);)
TEST(test_nop, pv.nop();)
TEST(test_ident, x = pv.ident(x);)
TEST(test_native, x = pv.native(x);)
TEST(test_constant, x = pv.constant(x);)
TEST(test_ifunc, x = add_one_ifunc(x);)
TEST(test_shared, x = add_one_shared(x);)
/* A slot that was null when the program was linked: patched at the first set. */
TEST(test_set, x = pv.null(x);)

#define ALL (LOOPS * CALLS)
static const struct test {
	const char *name;
	long (*run)(void);
	long result;
	char order; /* of the targets: 0 one after the other, r random, a all the same */
} tests[] = {
	{"empty", test_empty, 0, 0},
	{"inline", test_inline, ALL, 0},
	{"direct", test_direct, ALL, 0},
	{"indirect", test_indirect, ALL, 0},
	{"indirect to nop", test_nop_indirect, 0, 0},
	{"table, same", test_alternating, ALL, 'a'},
	{"table, alternating", test_alternating, ALL, 0},
	{"table, random", test_alternating, ALL, 'r'},
	{"patched", test_patched, ALL, 0},
	{"patched live", test_set, ALL, 0},
	{"nop", test_nop, 0, 0},
	{"ident", test_ident, 0, 0},
	{"native", test_native, ALL, 0},
	{"constant", test_constant, 5, 0},
	{"ifunc", test_ifunc, ALL, 0},
	{"shared", test_shared, ALL, 0},
};

static void order_fill(char how)
{
	static uint64_t state = 88172645463325252u;
	unsigned i;

	for (i = 0; i < sizeof order; i++)
		switch (how) {
		case 'r': order[i] = bench_random(&state) >> 40 & 1; break;
		case 'a': order[i] = 0; break;
		default: order[i] = i & 1;
		}
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 0, round, i;
	struct etch_info info = {.size = sizeof info};
	int error = pv_set(pv.null, add_one);

	if (error || etch_info(&info)) {
		fprintf(stderr, "calls: %s\n", etch_strerror(error));
		return 1;
	}
	printf("# calls\t%lu\tdirect\t%lu\tinline\t%lu\tindirect\t%lu\tfixed\t%lu\n", info.calls, info.calls_direct,
	       info.calls_inline, info.calls_indirect, info.calls_fixed);
	printf("# tested\t%u\tticks_per_ns\t%.6f\n", ALL, bench_ticks_per_ns());
	bench_pin(bench_cpu(0));
	for (round = 0; round <= rounds; round++)
		for (i = 0; i < sizeof tests / sizeof *tests; i++) {
			uint64_t t;
			long x;

			order_fill(tests[i].order);
			tests[i].run();
			/* Anew: the sequence just seen is not to be known by heart. */
			if (tests[i].order == 'r')
				order_fill('r');
			t = bench_tsc();
			x = tests[i].run();
			t = bench_tsc() - t;
			if (x != tests[i].result) {
				fprintf(stderr, "calls: %s gives %ld\n", tests[i].name, x);
				return 1;
			}
			if (round)
				printf("%s\t%llu\n", tests[i].name, (unsigned long long)t);
		}
	return 0;
}
