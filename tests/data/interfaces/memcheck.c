/* SPDX-License-Identifier: MIT */
/*
 * memcheck.c: a program without an error of its own: walks in the place and from a handler, on the main stack, a
 * thread's and an alternate one, and allocations.
 */
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#define NOINLINE __attribute__((noinline))

static volatile int samples, frames;
static void *volatile kept;

static NOINLINE void walk(void)
{
	void *ips[100];

	frames += backtrace(ips, 100);
	samples++;
}

static void on_signal(int sig)
{
	(void)sig;
	walk();
}

static NOINLINE int deep(int n)
{
	volatile char capacity[700];

	capacity[0] = (char)n;
	if (n) {
		kept = malloc((size_t)n);
		free(kept);
		return deep(n - 1) + capacity[0];
	}
	walk();
	raise(SIGUSR1);
	return capacity[0];
}

static void *thread(void *arg)
{
	for (int i = 0; i < 20; i++)
		deep(i);
	return arg;
}

int main(void)
{
	stack_t alternate = {.ss_sp = malloc(65536), .ss_size = 65536};
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
	struct itimerval often = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
	pthread_t t;

	sigaltstack(&alternate, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGPROF, &sa, NULL);
	setitimer(ITIMER_PROF, &often, NULL);
	for (int i = 0; i < 60; i++)
		deep(i);
	pthread_create(&t, NULL, thread, NULL);
	thread(NULL);
	pthread_join(t, NULL);
	setitimer(ITIMER_PROF, &off, NULL);
	printf("%d walks\n", samples);
	alternate.ss_flags = SS_DISABLE;
	sigaltstack(&alternate, NULL);
	return frames < 10 * samples;
}
