/* SPDX-License-Identifier: MIT */
/* scripts/bench/run marks: ns an iteration of a loop with nothing, a flag, a static branch, a marker, a call. */
#include <etch/mark.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define N 20000000l
DEFINE_IMV(int, flag) = 0;
static volatile int plain;
static volatile long sum;

static __attribute__((noinline)) void called(void *data, const struct etch_mark *mark, long i)
{
	(void)mark;
	*(volatile long *)data += i;
}

#define LOOP(name, body)                             \
	static __attribute__((noinline)) void name(void) \
	{                                                \
		for (long i = 0; i < N; i++) {               \
			__asm__ volatile("" : "+r"(i));          \
			body;                                    \
		}                                            \
	}
LOOP(nothing, )
LOOP(with_if, if (__builtin_expect(plain, 0)) called((void *)&sum, NULL, i))
LOOP(with_branch, if (imv_unlikely(flag)) called((void *)&sum, NULL, i))
LOOP(with_mark, ETCH_MARK(hot, i))
LOOP(with_call, called((void *)&sum, NULL, i))

static double ns(void (*loop)(void))
{
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	loop();
	clock_gettime(CLOCK_MONOTONIC, &b);
	return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / N;
}

int main(int argc, char **argv)
{
	for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 1); i++) {
		printf("nothing %f\nif_off %f\nbranch_off %f\nmark_off %f\ncall %f\n", ns(nothing), ns(with_if),
		       ns(with_branch), ns(with_mark), ns(with_call));
		plain = 1;
		if (imv_set(flag, 1) || etch_mark_attach("hot", called, (void *)&sum) != 1)
			return 1;
		printf("if_on %f\nbranch_on %f\nmark_on %f\n", ns(with_if), ns(with_branch), ns(with_mark));
		plain = 0;
		if (imv_set(flag, 0) || etch_mark_detach("hot", called, (void *)&sum))
			return 1;
	}
	return 0;
}
