/* SPDX-License-Identifier: MIT */
/* Allocations whose sums are known, in one of several ways: work HOW [PROGRAM]. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static void *volatile kept;

/* 10 blocks of 1000 bytes that nobody frees. */
NOINLINE static void leaky(void)
{
	for (int i = 0; i < 10; i++)
		kept = malloc(1000);
}

/* 100,000 bytes at once, in 100 blocks. */
NOINLINE static void peaky(void)
{
	void *list[100];

	for (int i = 0; i < 100; i++)
		list[i] = malloc(1000);
	for (int i = 0; i < 100; i++)
		free(list[i]);
}

/* 1,000 times 100 bytes, one after the other. */
NOINLINE static void busy(void)
{
	for (int i = 0; i < 1000; i++) {
		void *volatile p = malloc(100); /* not `kept`: other threads are here, too */

		free(p);
	}
}

NOINLINE static void all(void)
{
	leaky();
	peaky();
	busy();
	__asm__ volatile("");
}

NOINLINE static void every_kind(void)
{
	void *p;

	free(calloc(3, 7));
	p = realloc(NULL, 10);
	p = realloc(p, 20000);
	p = reallocarray(p, 5, 100);
	free(p);
	if (!posix_memalign(&p, 64, 33))
		free(p);
	free(aligned_alloc(64, 128));
	free(memalign(32, 11));
	free(valloc(5000));
	free(pvalloc(5000));
	kept = realloc(malloc(50), 0);
	kept = realloc(malloc(60), (size_t)1 << 62); /* fails: the block stays */
	kept = malloc(0);
	free(NULL);
}

static void *thread(void *arg)
{
	for (int i = 0; i < 20; i++)
		busy();
	leaky();
	return arg;
}

static void threads(void)
{
	pthread_t t[8];

	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 8; i++)
			pthread_create(&t[i], NULL, thread, NULL);
		for (int i = 0; i < 8; i++)
			pthread_join(t[i], NULL);
	}
}

static void forks(int how)
{
	for (int i = 0; i < 20; i++) {
		pid_t pid = how == 'r' ? (pid_t)syscall(SYS_fork) : fork();

		if (!pid) {
			leaky();
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
}

static volatile sig_atomic_t handled;

static void handler(__attribute__((unused)) int signal)
{
	void *volatile p = malloc(333);

	handled++;
	free(p);
}

/* malloc(3) may not be called in a handler that has interrupted it; here every other call is of memory that is mapped. */
NOINLINE static void signals(void)
{
	struct itimerval t = {{0, 100}, {0, 100}};
	volatile unsigned n = 0;

	signal(SIGALRM, handler);
	setitimer(ITIMER_REAL, &t, NULL);
	while (handled < 300)
		n++;
	memset(&t, 0, sizeof(t));
	setitimer(ITIMER_REAL, &t, NULL);
}

NOINLINE static int deep(int n)
{
	if (n)
		return deep(n - 1) + 1;
	leaky();
	return 0;
}

static void libraries(const char *path, const char *other)
{
	for (int i = 0; i < 2; i++) {
		void *h = dlopen(i ? other : path, RTLD_NOW);
		void (*f)(void) = h ? (void (*)(void))dlsym(h, "plugin") : NULL;

		if (!f)
			_exit(9);
		f();
		dlclose(h);
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "all";

	if (!strcmp(how, "all") || !strcmp(how, "fail"))
		all();
	else if (!strcmp(how, "kinds"))
		every_kind();
	else if (!strcmp(how, "threads"))
		threads();
	else if (!strcmp(how, "fork"))
		forks('f');
	else if (!strcmp(how, "rawfork"))
		forks('r');
	else if (!strcmp(how, "signals"))
		signals();
	else if (!strcmp(how, "deep"))
		return deep(20000) != 20000;
	else if (!strcmp(how, "dlclose"))
		libraries(argv[2], argv[3]);
	else if (!strcmp(how, "closefrom")) {
		closefrom(3);
		for (int i = 0; i < 300; i++)
			deep(i);
	} else if (!strcmp(how, "exec")) {
		leaky();
		execl(argv[2], argv[2], "all", NULL);
	} else if (!strcmp(how, "abort") || !strcmp(how, "kill") || !strcmp(how, "crash")) {
		all();
		if (how[0] == 'a')
			abort();
		if (how[0] == 'k')
			raise(SIGKILL);
		*(volatile int *)0 = 1;
	}
	return !strcmp(how, "fail");
}
