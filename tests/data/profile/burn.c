/* SPDX-License-Identifier: MIT */
/*
 * A program whose profile is known: six tenths of its time are in hot(), three in warm(), one in cool(), each called
 * main -> outer -> middle. Which is next is random, so that no sampling period can be in step with the calls. Runs for argv[1] seconds of processor time. "threads": in two threads named "worker";
 * "fork": in a child; "exec": in another program, argv[3]; "inline": with a function inlined into middle().
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PLAIN __attribute__((noinline, noclone))

static double seconds = 0.3;
volatile unsigned long sink;

static inline __attribute__((always_inline)) void work(void)
{
	unsigned long x = sink;

	/* A chain in a register: as long wherever the loop lies. */
	for (unsigned long i = 0; i < 20000; i++)
		__asm__ __volatile__("imul $3, %0, %0" : "+r"(x));
	sink = x;
}

PLAIN void hot(void) { work(); __asm__ __volatile__(""); }
PLAIN void warm(void) { work(); __asm__ __volatile__("nop"); }
PLAIN void cool(void) { work(); __asm__ __volatile__("nop\n\tnop"); }

PLAIN void middle(int which)
{
	if (which == 0)
		hot();
	else if (which == 1)
		warm();
	else
		cool();
	sink++;
}

PLAIN void outer(int which)
{
	middle(which);
	sink++;
}

static PLAIN void *all(void *unused)
{
	struct timespec t;
	unsigned int seed = 1;

	do {
		for (int i = 0; i < 3; i++) {
			int tenth = rand_r(&seed) / (RAND_MAX / 10 + 1);

			outer((tenth >= 6) + (tenth >= 9));
		}
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	} while ((double)t.tv_sec + 1e-9 * (double)t.tv_nsec < seconds);
	return unused;
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[2] : "";
	pthread_t thread[2];

	if (argc > 1)
		seconds = atof(argv[1]);
	if (!strcmp(how, "threads")) {
		for (int i = 0; i < 2; i++) {
			pthread_create(&thread[i], NULL, all, NULL);
			pthread_setname_np(thread[i], "worker");
		}
		for (int i = 0; i < 2; i++)
			pthread_join(thread[i], NULL);
	} else if (!strcmp(how, "fork") || !strcmp(how, "exec")) {
		if (!fork()) {
			if (how[0] == 'e')
				execl(argv[3], "burned", argv[1], (char *)NULL);
			all(NULL);
			_exit(0);
		}
		wait(NULL);
	} else {
		all(NULL);
	}
	return !strcmp(how, "fail");
}
