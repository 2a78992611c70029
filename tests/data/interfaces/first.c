/* SPDX-License-Identifier: MIT */
/*
 * lib/interfaces: the first backtrace(3) of a program that has not loaded libgcc_s, made
 *
 *     first hook      by an allocator that profiles itself, under its lock (jemalloc with prof, yugabyte-db#33917)
 *     first handler   in a handler that has interrupted the allocator (foundationdb#14022)
 *
 * glibc's loads libgcc_s then, and so allocates.
 */
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static char pool[64 << 20] __attribute__((aligned(16)));
static size_t used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int hooked, interrupted, frames;
static void *ips[64];

static void handler(int sig)
{
	(void)sig;
	frames = backtrace(ips, 64);
}

void *malloc(size_t size)
{
	char *p;

	pthread_mutex_lock(&lock);
	p = pool + used + 16;
	*(size_t *)(void *)(p - 8) = size;
	used += (size + 47) & ~(size_t)15;
	if (hooked)
		frames = backtrace(ips, 64);
	if (interrupted)
		raise(SIGUSR1);
	pthread_mutex_unlock(&lock);
	return used < sizeof(pool) ? p : NULL;
}

void free(void *p) { (void)p; }

void *calloc(size_t n, size_t size) { return memset(malloc(n * size), 0, n * size); }

void *realloc(void *old, size_t size)
{
	size_t had = old ? *(size_t *)(void *)((char *)old - 8) : 0;
	void *p = malloc(size);

	if (old)
		memcpy(p, old, had < size ? had : size);
	return p;
}

int main(int argc, char **argv)
{
	void *volatile p;

	(void)argc;
	signal(SIGUSR1, handler);
	hooked = !strcmp(argv[1], "hook");
	interrupted = !hooked;
	p = malloc(100);
	hooked = interrupted = 0;
	free(p);
	printf("%d\n", frames > 3);
	return 0;
}
