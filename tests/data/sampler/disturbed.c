// SPDX-License-Identifier: MIT
/*
 * disturbed.c: programs that do something else under a sampler, and one that must not.
 *
 * disturbed WHAT, which is:
 *	same      nothing: computes
 *	loaded    prints whether something is preloaded
 *	signals   prints whether a signal has come while it waited
 *	confined  allows itself read, write, exit and the return from a handler, and computes
 *	defaults  has a child that asks the kernel for the default of each signal, and computes
 *	deep      computes below 400,000 frames
 * Compiled with -DREWRITTEN, in place of what etch makes of it: it does another thing
 * (`other`), or has a child that crashes (`crash`), where it is sampled with walks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/seccomp.h>

static volatile unsigned long sink;

static void compute(void)
{
	for (unsigned long i = 0; i < 40000000; i++)
		sink = sink * 31 + i;
}

__attribute__((noinline, noclone)) static unsigned long deep(int n)
{
	if (n)
		return deep(n - 1) + sink;
	compute();
	return 1;
}

static int defaults(void)
{
	struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } none = { 0 };
	int status = 0;

	if (!fork()) {
		for (int i = 1; i < 32; i++)
			syscall(SYS_rt_sigaction, i, &none, NULL, 8);
		compute();
		_exit(3);
	}
	wait(&status);
	return status;
}

static void sampled(const char *what)
{
#ifdef REWRITTEN
	if (!getenv("SAMPLER_DIR") || getenv("SAMPLER_ONLY"))
		return;
	if (!strcmp(what, "other"))
		puts("other");
	if (!strcmp(what, "crash") && !fork())
		abort();
	wait(NULL);
#else
	(void)what;
#endif
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	struct timeval t = { .tv_usec = 50000 };

	sampled(what);
	if (!strcmp(what, "same"))
		compute();
	if (!strcmp(what, "loaded"))
		printf("%d\n", !!getenv("LD_PRELOAD"));
	if (!strcmp(what, "signals"))
		printf("%d\n", select(0, NULL, NULL, NULL, &t));
	if (!strcmp(what, "confined") && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0))
		compute();
	if (!strcmp(what, "defaults") && defaults() != 3 << 8)
		return 1;
	if (!strcmp(what, "deep"))
		sink = deep(400000);
	if (write(1, "end\n", 4) != 4)
		return 1;
	if (strcmp(what, "confined"))
		return 0;
	syscall(SYS_exit, 0);
}
