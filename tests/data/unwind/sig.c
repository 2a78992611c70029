/* SPDX-License-Identifier: MIT */
/*
 * What tests/data/unwind/step.c sends signals to: functions with frames of several
 * kinds, library functions through the PLT, a handler on an alternate stack
 * (SIGUSR1), one on the stack it finds (SIGUSR2), each of which calls on, a longjmp
 * out of a handler (SIGHUP). Prints how often each one ran.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile unsigned long sum;
static volatile int seen[3];
static char alternate[1 << 16] __attribute__((aligned(64)));
static sigjmp_buf back;

NOINLINE static unsigned leaf(unsigned x)
{
	return x * 2654435761u + 1;
}

NOINLINE static unsigned plain(unsigned x, unsigned n)
{
	unsigned a[16];

	for (unsigned i = 0; i < 16; i++)
		a[i] = leaf(x + i);
	for (unsigned i = 0; i < n; i++)
		a[i & 15] ^= leaf(a[(i * 7) & 15]);
	return a[x & 15];
}

NOINLINE static unsigned small(unsigned x)
{
	unsigned a[4] = { x, x + 1, x + 2, x + 3 };

	return leaf(a[leaf(x) & 3]) + a[x & 3];
}

NOINLINE static unsigned pointer(unsigned x)
{
	char *p = alloca(16 + (x & 63));

	memset(p, (int)x, 16 + (x & 63));
	return plain((unsigned)p[3], 3) + leaf((unsigned)p[x & 15]);
}

NOINLINE static unsigned aligned(unsigned x)
{
	uint32_t v[16] __attribute__((aligned(64)));

	for (unsigned i = 0; i < 16; i++)
		v[i] = leaf(x * i);
	return v[x & 15] ^ pointer(v[3]) ^ (unsigned)((uintptr_t)v & 63);
}

NOINLINE static unsigned tail(unsigned x)
{
	return plain(x + 1, 2);
}

NOINLINE static unsigned deep(unsigned n)
{
	return n ? deep(n - 1) * 3 + leaf(n) : aligned(n);
}

static int order(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return (leaf(x) & 255) < (leaf(y) & 255) ? -1 : x > y;
}

NOINLINE static void library(unsigned x)
{
	unsigned a[12];
	char text[80];

	for (unsigned i = 0; i < 12; i++)
		a[i] = leaf(x ^ i);
	qsort(a, 12, sizeof *a, order);
	snprintf(text, sizeof text, "%u %s %d", a[0], "text", (int)a[1]);
	sum += strlen(text) + strtoul(text, NULL, 10);
	sum += (unsigned long)(strtod("3.25e2", NULL) * 4);
}

static void on_signal(int sig)
{
	seen[sig == SIGUSR2]++;
	sum += small((unsigned)sig) + strlen(getenv("HOME") ? "a" : "bc");
}

static void on_jump(int sig)
{
	(void)sig;
	seen[2]++;
	sum += leaf(7);
	siglongjmp(back, 1);
}

int main(int argc, char **argv)
{
	struct sigaction a = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_NODEFER };
	struct sigaction b = { .sa_handler = on_signal, .sa_flags = SA_NODEFER };
	struct sigaction c = { .sa_handler = on_jump, .sa_flags = 0 };
	stack_t ss = { .ss_sp = alternate, .ss_size = sizeof alternate };
	const volatile int rounds = argc > 1 ? atoi(argv[1]) : 2;

	if (sigaltstack(&ss, NULL) || sigaction(SIGUSR1, &a, NULL) || sigaction(SIGUSR2, &b, NULL))
		return 1;
	for (volatile int i = 0; i < rounds; i++) {
		sigsetjmp(back, 1);
		if (argc > 2 && sigaction(SIGHUP, &c, NULL))
			return 1;
		sum += deep((unsigned)i % 7) + tail((unsigned)i) + aligned((unsigned)i * 5);
		library((unsigned)i);
	}
	printf("%d %d %d\n", seen[0], seen[1], seen[2]);
	return 0;
}
