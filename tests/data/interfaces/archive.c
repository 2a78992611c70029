/* SPDX-License-Identifier: MIT */
/* libetch-unwind.a: walks to main and to the beginning of a thread, by each interface that is in the archive. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int backtrace(void **ips, int max);
int unw_backtrace(void **ips, int max);
int _Ux86_64_getcontext(void *context);
int _ULx86_64_init_local(void *cursor, void *context);
int _ULx86_64_step(void *cursor);
int _ULx86_64_get_reg(void *cursor, int reg, uint64_t *value);

extern const char __start_main_text[], __stop_main_text[];

static int has_main(void **ips, int n)
{
	for (int i = 0; i < n; i++)
		if ((const char *)ips[i] >= __start_main_text && (const char *)ips[i] < __stop_main_text)
			return 1;
	return 0;
}

static __attribute__((noinline)) void walk(const char *where)
{
	uint64_t context[128], cursor[127], ip;
	void *ips[64];
	int found[3], n = 0;

	found[0] = has_main(ips, backtrace(ips, 64));
	found[1] = has_main(ips, unw_backtrace(ips, 64));
	_Ux86_64_getcontext(context);
	_ULx86_64_init_local(cursor, context);
	do {
		_ULx86_64_get_reg(cursor, 16, &ip);
		ips[n++] = (void *)ip;
	} while (n < 64 && _ULx86_64_step(cursor) > 0);
	found[2] = has_main(ips, n);
	for (int i = 0; i < 3; i++)
		printf("%s%c", found[i] ? where : "lost", i < 2 ? ' ' : '\n');
	fflush(stdout);
}

static void handler(int sig)
{
	(void)sig;
	walk("handler");
}

__attribute__((section("main_text"), noinline)) static void *thread(void *arg)
{
	walk("thread");
	__asm__ volatile("" ::: "memory");
	return arg;
}

__attribute__((section("main_text"))) int main(void)
{
	pthread_t t;

	walk("main");
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	pthread_create(&t, NULL, thread, NULL);
	pthread_join(t, NULL);
	return 0;
}
