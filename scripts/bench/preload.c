/* SPDX-License-Identifier: MIT */
/*
 * preload: calls backtrace(3) WALKS times, under 20 functions and qsort(3): `preload WALKS`.
 * With -DPREPARE: loads the libraries named and makes tables for all: prints how often the processor's time went on
 * meanwhile, in microseconds.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef PREPARE
#include <etch/unwind.h>

int main(int argc, char **argv)
{
	struct timespec a, b;

	for (int i = 1; i < argc; i++)
		if (!dlopen(argv[i], RTLD_LAZY))
			return 1;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	etch_unwind_prepare();
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	printf("# us\t%.0f\n", (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3);
	return 0;
}
#else
static long walks;

static int compare(const void *a, const void *b)
{
	void *ips[64];

	(void)a, (void)b;
	for (; walks; walks--)
		if (backtrace(ips, 64) < 24)
			exit(1);
	return 0;
}

__attribute__((noinline)) static int deeper(volatile int depth)
{
	int two[2] = {2, 1};

	if (depth)
		return deeper(depth - 1) + depth;
	qsort(two, 2, sizeof(*two), compare);
	return two[0];
}

int main(int argc, char **argv)
{
	walks = argc > 1 ? atol(argv[1]) : 1;
	return !deeper(20);
}
#endif
